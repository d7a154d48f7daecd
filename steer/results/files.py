"""Results on disk. Every file is written whole or not at all.

A result is a folder: `result.json` (provenance, rows and details), `rows.csv`, `tensors.safetensors` where the recipe
asks for tensors, and the figures. `result.json` is written last: a folder without it is not a result. It states its
`format`; `steer migrate` rewrites files of an earlier format.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from steer.base.errors import SteerError
from steer.base.files import is_there, read_text, write_atomically
from steer.base.json import Json
from steer.results.details import Detail
from steer.results.directions import write_direction
from steer.results.provenance import Provenance
from steer.results.result import Result
from steer.results.rows import Row, flat, level_names, plain
from steer.results.samples import SAMPLES, read_samples, write_samples
from steer.results.tensors import TENSORS, StoredTensors, write_tensors

RESULT, ROWS = "result.json", "rows.csv"
FORMAT = 2
MAX_BYTES = 200_000_000
PROVENANCE, ROW_LIST = TypeAdapter(Provenance), TypeAdapter(list[Row])
DETAIL_LIST: TypeAdapter[list[Detail]] = TypeAdapter(list[Detail])


def to_json(result: Result) -> Json:
    """A result as plain data, without its tensors."""
    return {
        "format": FORMAT,
        **PROVENANCE.dump_python(result.provenance, mode="json"),
        "rows": [plain(row) for row in result.rows],
        "details": DETAIL_LIST.dump_python(result.details, mode="json"),
    }


def from_json(data: Any, place: str) -> Result:
    """A result from plain data of this format; `place` names it in messages."""
    check_format(data, place)
    content = {name: value for name, value in data.items() if name != "format"}
    rows, details = content.pop("rows"), content.pop("details", [])
    try:
        provenance = PROVENANCE.validate_python(content)
        return Result(provenance, ROW_LIST.validate_python(rows), details=DETAIL_LIST.validate_python(details))
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"]))
        raise SteerError(f"{place}: not as `steer run` writes it: {where}: {detail['msg']}") from error


def check_format(data: Any, place: str) -> None:
    """Raise unless this is a result of today's format."""
    version = format_of(data, place)
    if version < FORMAT:
        raise SteerError(f"{place}: has format {version}, this version reads {FORMAT}: `steer migrate` rewrites it")
    if version > FORMAT:
        raise SteerError(
            f"{place}: has format {version}, which a later version of steer writes; this one reads {FORMAT}"
        )


def format_of(data: Any, place: str) -> int:
    """The format of a result; files of format 1 do not state it."""
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise SteerError(f"{place}: is not a result of `steer run`")
    version = data.get("format", 1)
    if type(version) is not int or version < 1:
        raise SteerError(f"{place}: format: should be {FORMAT} (found {version!r:.40})")
    return version


def write_result(result: Result, folder: Path) -> None:
    write_tensors(result.tensors, folder / TENSORS, result.known_axes)
    write_samples(result.samples, folder / SAMPLES)
    for name, subspace in result.subspaces.items():
        write_direction(subspace, folder / f"{name}.safetensors")
    write_atomically(folder / ROWS, rows_csv(result.rows))
    write_atomically(folder / RESULT, result_text(to_json(result)))
    result.folder = folder


def rewrite_result(result: Result, path: Path) -> None:
    """Write a result over the file that it was read from, and the rows beside it."""
    if path.name == RESULT:
        write_atomically(path.parent / ROWS, rows_csv(result.rows))
    write_atomically(path, result_text(to_json(result)))


def result_text(data: Json) -> str:
    """JSON with each row and each detail on a line of its own."""
    lists = {name: data[name] for name in ("rows", "details")}
    head = json.dumps({name: value for name, value in data.items() if name not in lists}, indent=1)
    parts = [f' "{name}": [{_lines(entries)}]' for name, entries in lists.items()]
    return ",\n".join([head[:-2], *parts]) + "\n}\n"


def _lines(entries: list[Json]) -> str:
    return "\n  " + ",\n  ".join(map(json.dumps, entries)) + "\n " if entries else ""


def rows_csv(rows: list[Row]) -> str:
    """A column for each field, and for each thing that varies between conditions."""
    text = io.StringIO()
    titles = [field.name for field in fields(Row) if field.name != "levels"]
    writer = csv.DictWriter(text, [*titles, *level_names(rows)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(flat, rows))  # None, all positions, is an empty cell
    return text.getvalue()


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise SteerError(f"{path}: is not a result of `steer run`") from error


def read_result(folder: Path | str) -> Result:
    """The result that a folder, or its `result.json`, holds. Its tensors are read on access."""
    folder = Path(folder)
    path = folder / RESULT if folder.is_dir() else folder
    if not is_there(path):
        raise SteerError(f"{folder}: holds no {RESULT}" if folder.is_dir() else f"there is no file or folder {folder}")
    result = from_json(read_json(path), str(path))
    result.folder = path.parent
    if is_there(path.parent / TENSORS):
        result.tensors = StoredTensors(path.parent / TENSORS)
    result.samples = read_samples(path.parent)
    return result


def saved_result(folder: Path, content: str) -> Result | None:
    """The result in a folder, if its hash is this one."""
    try:
        result = read_result(folder)
    except SteerError:
        return None
    return result if result.provenance.hash == content else None
