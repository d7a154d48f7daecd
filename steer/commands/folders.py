"""Where a command writes when no folder is given."""

from __future__ import annotations

from pathlib import Path

from steer.base.shipped import is_shipped, locate


def results_folder(verb: str, checkpoint: str, *more: str, within: Path = Path("results")) -> Path:
    """`results/eval-seed1`, or `results/eval-mine-0123abcd`.

    Two folders of one name may hold different weights, so what is not shipped also goes by the weights' hash.
    """
    from steer.models.record import read_record

    folder = locate(checkpoint)
    own = () if is_shipped(folder) else (read_record(folder).weights_sha256[:8],)
    return within / "-".join((verb, folder.resolve().name, *own, *more))
