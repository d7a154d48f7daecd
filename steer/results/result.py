"""Results on disk: tidy rows and what they came from, each file written whole or not at all.

A result is a folder: `result.json` (metadata, rows, and what figures need beyond rows), `rows.csv`,
`tensors.safetensors` where the recipe asked for tensors, and the figures. `result.json` is written last: a folder
without it is no result.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steer.base.errors import SteerError
from steer.base.files import is_there, read_text, write_atomically
from steer.base.shipped import is_shipped, locate
from steer.models.record import read_record

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

NO_SHARES = ("logit-attribution", "ov-alignment", "r-squared")  # measures that are no percentages
RESULT, ROWS, TENSORS = "result.json", "rows.csv", "tensors.safetensors"
MAX_BYTES = 200_000_000


@dataclass
class Result:
    """What an experiment found. `rows` are tidy: one value with its interval in each."""

    metadata: dict[str, Any]
    rows: list[dict[str, Any]]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    details: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # what figures need beyond rows
    folder: Path | None = None

    @property
    def frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self.rows)

    def save(self, folder: Path | str) -> Path:
        """Write it as `steer run` does, but for the figures (`steer draw` makes them); gives the folder."""
        write_result(self, Path(folder))
        return Path(folder)


def results_folder(verb: str, checkpoint: str, *more: str, within: Path = Path("results")) -> Path:
    """Where a command writes when it is not told: `results/eval-seed1`, or `results/eval-mine-0123abcd`.

    Two folders of one name may hold different weights, so what is not shipped also goes by the weights' hash.
    """
    folder = locate(checkpoint)
    own = () if is_shipped(folder) else (read_record(folder).weights_sha256[:8],)
    return within / "-".join((verb, folder.resolve().name, *own, *more))


def content_hash(recipe: dict[str, Any], checkpoint_sha256: str, version: str, settings: dict[str, Any]) -> str:
    """The name of a result's content: the same question to the same weights has the same hash."""
    told = json.dumps([recipe, checkpoint_sha256, version, settings], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def write_result(result: Result, folder: Path) -> None:
    if result.tensors:
        from safetensors.torch import save

        write_atomically(folder / TENSORS, save({n: t.contiguous() for n, t in result.tensors.items()}))
    write_atomically(folder / ROWS, result.frame.to_csv(index=False))
    told = json.dumps({**result.metadata, "rows": result.rows}, indent=1)
    if result.details:  # long lists of numbers, one entry a line
        told = f'{told[:-2]},\n "details": {_compact(result.details)}\n}}'
    write_atomically(folder / RESULT, told + "\n")
    result.folder = folder


def _compact(details: dict[str, list[dict[str, Any]]]) -> str:
    lists = {name: ",\n  ".join(map(json.dumps, told)) for name, told in details.items()}
    return "{" + ", ".join(f"{json.dumps(name)}: [\n  {told}\n ]" for name, told in lists.items()) + "}"


def read_result(folder: Path | str) -> Result:
    folder = Path(folder)
    path = folder / RESULT if folder.is_dir() else folder
    if not is_there(path):
        raise SteerError(f"{folder}: holds no {RESULT}" if folder.is_dir() else f"there is no file or folder {folder}")
    try:
        told = json.loads(read_text(path, MAX_BYTES))
        rows, details = told.pop("rows"), told.pop("details", {})
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise SteerError(f"{path}: is not a result of `steer run`") from error
    if not (isinstance(rows, list) and isinstance(details, dict) and all(isinstance(row, dict) for row in rows)):
        raise SteerError(f"{path}: is not a result of `steer run`")
    return Result(told, rows, details=details, folder=path.parent)


def known(folder: Path, content: str) -> Result | None:
    """The result that a folder holds, if it is this content's."""
    try:
        found = read_result(folder)
    except SteerError:
        return None
    return found if found.metadata.get("hash") == content else None
