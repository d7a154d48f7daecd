"""Files of an earlier format, rewritten in today's: `steer migrate` from Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.files import is_there, write_atomically
from steer.base.json import Json
from steer.base.yaml import Document, check, read
from steer.recipe.load import load_recipe
from steer.results import circuit as circuits
from steer.results.circuit import CIRCUIT, Circuit, circuit_text, load_circuit
from steer.results.files import FORMAT, RESULT, ROWS, format_of, from_json, read_json, rewrite_result
from steer.results.version1 import CHANGES, CIRCUIT_CHANGES, circuit_from_1, result_from_1


@dataclass(frozen=True)
class Migration:
    """A file to be rewritten: what changes, and how it is written. Without changes there is nothing to do."""

    place: Path
    state: str
    changes: tuple[str, ...] = ()
    write: Callable[[], object] = lambda: None


def migrate(*files: Path | str) -> list[Migration]:
    """Rewrite results, circuits and recipes of an earlier format; nothing is written unless all of them can be read."""
    planned, faults = [], []  # type: tuple[list[Migration], list[str]]
    for file in files:
        try:
            planned.append(_plan(Path(file)))
        except SteerError as error:
            faults += error.faults
    if faults:
        raise SteerError(*faults)
    for migration in planned:
        migration.write()
    return planned


def _plan(file: Path) -> Migration:
    if not is_there(file):
        raise SteerError(f"there is no file or folder {file}")
    if file.is_dir():
        inside = [file / name for name in (RESULT, CIRCUIT) if (file / name).is_file()]
        if not inside:
            raise SteerError(f"{file}: holds no {RESULT} and no {CIRCUIT}")
        file = inside[0]
    if file.suffix == ".json":
        return _plan_result(file)
    return _plan_circuit(file) if file.name == CIRCUIT else _plan_recipe(file)


def _plan_result(path: Path) -> Migration:
    data = read_json(path)
    if format_of(data, str(path)) != 1:
        from_json(data, str(path))
        return Migration(path, f"nothing to do (format {FORMAT})")
    result = from_json(_converted(result_from_1, data, path), str(path))
    changes = (*CHANGES, f"{ROWS}: written again") if path.name == RESULT else CHANGES
    return Migration(path, f"format 1 -> {FORMAT}", changes, lambda: rewrite_result(result, path))


def _plan_circuit(path: Path) -> Migration:
    document = read(path)
    if circuits.format_of(document) != 1:
        load_circuit(path)
        return Migration(path, f"nothing to do (format {circuits.FORMAT})")
    circuit = check(Document(str(path), _converted(circuit_from_1, document.data, path)), Circuit)
    state = f"format 1 -> {circuits.FORMAT}"
    return Migration(path, state, CIRCUIT_CHANGES, lambda: write_atomically(path, circuit_text(circuit)))


def _plan_recipe(path: Path) -> Migration:
    version = load_recipe(str(path)).recipe.version
    return Migration(path, f"nothing to do (recipe of version {version})")


def _converted(convert: Callable[[Json], Json], data: Json, path: Path) -> Json:
    try:
        return convert(data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:  # changed by hand since
        raise SteerError(f"{path}: is not as version 1 of steer wrote it") from error
