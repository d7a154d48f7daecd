"""`steer discover` from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.shipped import DEFAULT
from steer.experiments.folders import results_folder
from steer.results.circuit import Circuit
from steer.results.evidence import SearchSettings

EPISODES, THRESHOLD = (20, 500), (0.01, 0.9)  # least and most


def discover(
    checkpoint: str | Path = DEFAULT, *, episodes: int = 250, threshold: float = 0.1, out: Path | str = "results",
    force: bool = False, device: str = "cpu", tell: Callable[[float, str], None] = lambda done, text: None,
) -> Circuit:  # fmt: skip
    """The circuit of a checkpoint, by name or folder: searched, checked, and written to a folder in `out`.

    Searched before with the same settings, it is read; a search takes minutes.
    """
    from steer.discover import keep

    for name, value, (least, most) in (("episodes", episodes, EPISODES), ("threshold", threshold, THRESHOLD)):
        if not least <= value <= most:
            raise SteerError(f"--{name}: from {least} to {most}, not {value}")
    folder = results_folder("discover", str(checkpoint), within=Path(out))
    settings = SearchSettings(episodes=episodes, threshold=threshold)
    return keep.find_circuit(str(checkpoint), folder, settings, force, tell, device).circuit
