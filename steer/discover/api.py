"""`steer discover` from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.memory import parse_memory
from steer.base.shipped import DEFAULT
from steer.experiments.folders import results_folder
from steer.results.circuit import Circuit
from steer.results.evidence import SearchSettings

EPISODES, THRESHOLD = (20, 500), (0.01, 0.9)  # least and most


def discover(
    checkpoint: str | Path = DEFAULT, *, episodes: int = 250, threshold: float = 0.1, out: Path | str = "results",
    force: bool = False, device: str = "cpu", tell: Callable[[float, str], None] = lambda done, text: None,
    task: Path | str | None = None, dtype: str = "float32", memory: str = "4G", workers: int | None = None,
    on: str | None = None, say: Callable[[str], None] = lambda text: None,
) -> Circuit:  # fmt: skip
    """The circuit of a checkpoint, by name or folder: searched, checked, and written to a folder in `out`.

    `task`: a file of prompts that the model's answers are searched on, instead of the task that it was trained on.
    Searched before with the same settings, it is read; a search takes minutes. `workers`, `on`: as `run_many` has
    them.
    """
    from steer.discover import keep
    from steer.discover.several import Searching
    from steer.experiments.cluster import opened

    for name, value, (least, most) in (("episodes", episodes, EPISODES), ("threshold", threshold, THRESHOLD)):
        if not least <= value <= most:
            raise SteerError(f"--{name}: from {least} to {most}, not {value}")
    settings, within = SearchSettings(episodes=episodes, threshold=threshold), Path(out)
    if task is None:
        keep.check_trained(str(checkpoint))
    words = keep.asked_of(Path(task), dtype) if task is not None else ()
    folder = results_folder("discover", str(checkpoint), *words, within=within)
    about = Path(task) if task is not None else None
    work = Searching(settings, about, device, dtype, parse_memory(memory), force)
    with opened(workers, on, say) as cluster:
        return work.find(str(checkpoint), folder, tell, cluster).circuit
