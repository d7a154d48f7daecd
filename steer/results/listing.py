"""What lies in a folder of results, found by the files that steer writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from steer.base.errors import SteerError
from steer.base.files import is_there
from steer.base.json import Json
from steer.results.circuit import CIRCUIT, load_circuit
from steer.results.files import RESULT, read_json

UNSAID = ("description", "version", "checkpoint", "task", "figure")  # keys that are no part of the question


@dataclass(frozen=True)
class Listed:
    """A result: what was asked, of which checkpoint, when. `recipe` is empty for what no recipe asked."""

    folder: Path
    verb: str
    recipe: str
    checkpoint: str
    examples: int | None
    date: datetime
    content: Json  # the recipe as it was run

    def to_json(self) -> Json:
        return {
            "folder": str(self.folder), "verb": self.verb, "recipe": self.recipe, "checkpoint": self.checkpoint,
            "examples": self.examples, "date": self.date.isoformat(timespec="seconds"),
        }  # fmt: skip


def list_folder(folder: Path) -> list[Listed]:
    """The newest first. Files of other programs are skipped."""
    if not is_there(folder):
        raise SteerError(f"there is no folder {folder}")
    listed = [*_results(folder), *_circuits(folder)]
    return sorted(listed, key=lambda one: one.date, reverse=True)


def _results(folder: Path) -> Iterator[Listed]:
    for path in folder.rglob(RESULT):
        try:
            data = read_json(path)
        except SteerError:
            continue
        if isinstance(data, dict) and (one := _result(path, data)) is not None:
            yield one


def _result(path: Path, data: Json) -> Listed | None:
    date = datetime.fromtimestamp(path.stat().st_mtime)
    match data:
        case {"name": str(name), "checkpoint": {"name": str(checkpoint)}, "rows": list(), "recipe": dict(recipe)}:
            examples = data.get("examples")
            return Listed(
                path.parent, "run", name, checkpoint, examples if type(examples) is int else None, date, recipe
            )
        case {"checkpoint": str(checkpoint), "split": str(), "episodes": int(episodes)}:
            return Listed(path.parent, "eval", "", checkpoint, episodes, date, {})
    return None


def _circuits(folder: Path) -> Iterator[Listed]:
    for path in folder.rglob(CIRCUIT):
        try:
            name = load_circuit(path).checkpoint.name
        except SteerError:
            continue
        yield Listed(path.parent, "discover", "", name, None, datetime.fromtimestamp(path.stat().st_mtime), {})


def changes_against(content: Json, shipped: Json) -> tuple[str, ...]:
    """`key=value` for what differs from the shipped recipe; of a list that differs, the whole."""
    ours, theirs = dict(_flat(content)), dict(_flat(shipped))
    keys = [key for key in ours if key.split(".")[0] not in UNSAID and ours[key] != theirs.get(key)]
    gone = [key for key in theirs if key.split(".")[0] not in UNSAID and key not in ours]
    return (*(f"{key}={_word(ours[key])}" for key in keys), *(f"{key} is left out" for key in gone))


def _flat(content: Json, before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _word(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return "none"
        case list() if all(isinstance(one, str | int | float) for one in value):
            return f"[{', '.join(map(str, value))}]"
        case list():
            return f"[{len(value)} {'entry' if len(value) == 1 else 'entries'}]"
        case _:
            return str(value)
