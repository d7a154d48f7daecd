"""From a file to its lines: JSONL, JSON, CSV or Parquet, every fault gathered with its file and line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from steer.base.errors import ConfigError, SteerError
from steer.base.files import read_file
from steer.base.json import Json
from steer.base.yaml import Document, check_as
from steer.tasks.prompts.formats import FORMATS, FormatName, is_nested, recognised
from steer.tasks.prompts.line import Line

MOST_BYTES = 200_000_000
LONGEST = 1_000_000  # characters of a line
SHOWN = 20  # faults that are spelled out; the rest are counted
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
LINE = TypeAdapter(Line)
Placed: TypeAlias = tuple[str, Any]  # file and line, and what stands there (an error, if it cannot be read)


def read_lines(path: Path, form: FormatName = "steer") -> tuple[dict[str, Line], bytes]:
    """The examples of a file by their place (`tasks/mine.jsonl:3`), and the file's bytes."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: a task's file ends in {', '.join(SUFFIXES)}")
    data = read_file(path, MOST_BYTES, ConfigError)
    lines: dict[str, Line] = {}
    faults: list[str] = []
    for place, raw in _rows(path, data):
        if form == "steer" and not lines and not faults:
            _check_ours(path, raw)
        try:
            lines[place] = _line(place, raw, form)
        except SteerError as error:
            faults += error.faults
    check(faults)
    if not lines:
        raise ConfigError(f"{path}: holds no examples")
    return lines, data


def _check_ours(path: Path, raw: Any) -> None:
    """One message for a file of another tool, not some for each of its lines."""
    ours = not isinstance(raw, dict) or {"prompt", "answer"} <= raw.keys()
    if form := None if ours else recognised(raw):
        text = f"{path}: has the columns of {form}: name it {form}:FILE (in a recipe: {{file: FILE, format: {form}}})"
        raise ConfigError(text)


def check(faults: list[str]) -> None:
    """Raise if there are faults: with the first ones, and how many more there are."""
    if faults:
        more = [f"… and {len(faults) - SHOWN:,} more faults"] if len(faults) > SHOWN else []
        raise ConfigError(*faults[:SHOWN], *more)


def _line(place: str, raw: Any, form: FormatName) -> Line:
    if isinstance(raw, SteerError):
        raise raw
    if not isinstance(raw, dict):
        raise ConfigError(f"{place}: must be an object with prompt and answer, not {json.dumps(raw)[:40]}")
    try:
        made = FORMATS[form](raw)
    except SteerError as error:
        raise ConfigError(*(f"{place}: {fault}" for fault in error.faults)) from error
    return check_as(Document(place, made), LINE, Line)


def _rows(path: Path, data: bytes) -> Iterator[Placed]:
    match path.suffix.lower():
        case ".parquet":
            return _parquet(path)
        case ".json":
            return _json(path, _text(path, data))
        case ".csv" | ".tsv":
            return _csv(path, _text(path, data))
        case _:
            return _jsonl(path, _text(path, data))


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read (byte {error.start + 1} is not UTF-8)") from error


def _jsonl(path: Path, text: str) -> Iterator[Placed]:
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{path}:{number}"
        if len(line) > LONGEST:
            yield place, ConfigError(f"{place}: a line of {len(line):,} characters; at most {LONGEST:,} are read")
        elif line.strip():
            yield place, _parsed(place, line)


def _parsed(place: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except SteerError as error:
        return ConfigError(*(f"{place}: {fault}" for fault in error.faults))
    except (ValueError, RecursionError) as error:
        column = f" (column {error.colno}: {error.msg})" if isinstance(error, json.JSONDecodeError) else ""
        return ConfigError(f"{place}: is not valid JSON{column}")


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """An object, each of whose keys must be given once: of two, JSON would silently take the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise SteerError(f"the key {twice!r} stands here twice")
    return made


def _no_number(text: str) -> Any:
    raise SteerError(f"{text} is not a number")


def _json(path: Path, text: str) -> Iterator[Placed]:
    """An array of examples, or an object that holds it as `prompts`; an example's place is its number, from 1."""
    data = _parsed(str(path), text)
    if isinstance(data, SteerError):
        raise data
    rows = data.get("prompts") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise ConfigError(f"{path}: must be an array of examples, or an object with `prompts`")
    yield from ((f"{path}: example {number}", row) for number, row in enumerate(rows, 1))


def _csv(path: Path, text: str) -> Iterator[Placed]:
    rows = csv.reader(io.StringIO(text), delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
    try:
        columns = next(rows, [])
        if twice := [name for n, name in enumerate(columns) if name and name in columns[:n]]:
            raise ConfigError(f"{path}:1: the column {twice[0]!r} stands here twice")
        for row in rows:
            place = f"{path}:{rows.line_num}"
            if len(row) > len(columns):
                yield place, ConfigError(f"{place}: has {len(row)} cells, the first line names {len(columns)} columns")
            elif any(row):
                yield place, _unpacked(place, zip(columns, row, strict=False))
    except csv.Error as error:
        yield "", ConfigError(f"{path}:{rows.line_num}: is not valid CSV ({error})")


def _parquet(path: Path) -> Iterator[Placed]:
    import pandas

    try:
        table = pandas.read_parquet(path)
    except ImportError as error:
        raise ConfigError(f"{path}: Parquet is read by pyarrow, which is not installed") from error
    except Exception as error:  # whatever its reader says of a broken file
        raise ConfigError(f"{path}: cannot be read as Parquet ({type(error).__name__})") from error
    rows = json.loads(table.to_json(orient="records"))
    for number, row in enumerate(rows, 1):
        place = f"{path}: row {number}"
        yield place, _unpacked(place, row.items())


def _unpacked(place: str, cells: Iterable[tuple[str, Any]]) -> Any:
    """Cells as nested data: `counterparts.name.prompt` is a key in a key in a key, lists and objects stand as JSON."""
    made: Json = {}
    for column, cell in cells:
        if cell is None or cell == "":
            continue
        packed = isinstance(cell, str) and cell[:1] in "[{" and is_nested(column)
        value = _parsed(f"{place}: {column}", cell) if packed else cell
        if isinstance(value, SteerError):
            return value
        _put(made, column.split("."), value)
    return made


def _put(made: Json, path: list[str], value: Any) -> None:
    *inner, last = path
    for key in inner:
        inside = made.setdefault(key, {})
        made = inside if isinstance(inside, dict) else made
    made[last] = value
