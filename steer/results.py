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

from steer.errors import SteerError
from steer.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

NO_SHARES = ("logit-attribution", "ov-alignment", "r-squared")  # measures that are no percentages
RESULT, ROWS, TENSORS = "result.json", "rows.csv", "tensors.safetensors"


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
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        rows, details = told.pop("rows"), told.pop("details", {})
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise SteerError(f"{path}: is not a result that can be read ({error})") from error
    return Result(told, rows, details=details, folder=path.parent)


def known(folder: Path, content: str) -> Result | None:
    """The result that a folder holds, if it is this content's."""
    try:
        found = read_result(folder)
    except SteerError:
        return None
    return found if found.metadata.get("hash") == content else None
