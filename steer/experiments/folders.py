"""Where a verb writes when no folder is given."""

from __future__ import annotations

from pathlib import Path

from steer.base.errors import SteerError
from steer.base.files import check_folder
from steer.base.shipped import is_shipped, locate


def results_folder(verb: str, checkpoint: str, *more: str, within: Path = Path("results")) -> Path:
    """`results/eval-seed1`, or `results/eval-mine-0123abcd`.

    Two folders of one name may hold different weights, so what is not shipped also goes by the weights' hash.
    """
    from steer.models.families import family_of
    from steer.models.huggingface.family import HuggingFaceFamily
    from steer.models.record import read_record

    family, place = family_of(checkpoint)
    if isinstance(family, HuggingFaceFamily):
        return within / "-".join((verb, family.short_name(place), *more))
    folder = locate(checkpoint)
    own = () if is_shipped(folder) else (read_record(folder).weights_sha256[:8],)
    return within / "-".join((verb, folder.resolve().name, *own, *more))


def numbering_of(checkpoint: str) -> str:
    """What a reader of head numbers must know; empty where heads are numbered as trained."""
    from steer.models.families import family_of
    from steer.models.huggingface.family import HuggingFaceFamily
    from steer.models.record import read_record

    if isinstance(family_of(checkpoint)[0], HuggingFaceFamily):
        return ""
    return read_record(locate(checkpoint)).numbering


def check_empty(folder: Path) -> None:
    """A checkpoint is written into a folder of its own, never over another one."""
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise SteerError(f"{folder} is not empty: give the name of a new folder")
