"""YAML files, read safely and checked against a schema; every fault has its place.

`read` loads a file into plain data and remembers where each value stands; `override` applies `key=value` arguments;
`check` validates the data by a pydantic model. All faults of a file are gathered and raised as one `ConfigError`, each
with file, line and column, the value at fault, and the nearest valid name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from yaml.constructor import SafeConstructor

from steer.base.errors import ConfigError, Fault, dotted, nearest, unknown
from steer.base.files import read_text
from steer.base.json import Json
from steer.base.keys import Key, Loc, keys_at
from steer.base.yaml_nodes import compose

MAX_BYTES = 1_000_000
MAX_NODES = 20_000  # of the expanded document: stops anchors that multiply
MAX_DEPTH = 30
SHOWN = 60  # characters of a value that a message shows
MAX_NUMBER = 2**63  # integers in a file must be smaller


class Strict(BaseModel):
    """Base of all schemas: no extra keys, immutable, no NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _some(values: tuple[object, ...]) -> tuple[object, ...]:
    if not values:
        raise ValueError("at least one is needed")
    return values


# Not `min_length`, which counts the valid entries: a list with one bad entry would be called too short as well.
AT_LEAST_ONE = AfterValidator(_some)

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


@dataclass
class Document:
    """The data of a file, the name that messages give it, and where each value stands."""

    name: str
    data: Any
    places: dict[Loc, str] = field(default_factory=dict)
    keys: dict[Loc, str] = field(default_factory=dict)  # where the key of a value stands

    def place(self, loc: Loc) -> str:
        """The place of a value, or of the nearest thing around it."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.places:
                return self.places[loc[:end]]
        return self.name


def read(path: Path) -> Document:
    return parse(read_text(path, MAX_BYTES, ConfigError), str(path))


def parse(text: str, name: str) -> Document:
    try:
        loader, root = compose(text)
        document = Document(name, None)
        reader = _Reader(loader, document)
        document.data = reader.value(root, ()) if root is not None else {}
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(_syntax_fault(error, name)) from error
    if reader.faults:
        raise ConfigError(*reader.faults)
    return document


class _Reader:
    """Turns YAML nodes into plain data. Notes places; refuses keys given twice, which a plain YAML loader accepts."""

    def __init__(self, loader: SafeConstructor, document: Document) -> None:
        self.loader, self.document = loader, document
        self.faults: list[Fault] = []
        self.nodes = 0

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise ConfigError(f"{self.document.name}: expands to more than {MAX_NODES} values (anchors that multiply?)")
        if len(loc) > MAX_DEPTH:
            raise ConfigError(f"{self.at(node)}: nested too deeply (an anchor that contains itself?)")
        self.document.places[loc] = self.at(node)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*loc, index)) for index, child in enumerate(node.value)]
        try:
            return self.loader.construct_object(node)
        except ValueError:  # an invalid date, or more digits than Python reads
            text = f"not valid YAML: {_cut(node.value)} is not a valid date or number"
            self.faults.append(Fault(self.at(node), loc, text))
            return None

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> Json:
        content: Json = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                self.faults.append(Fault(self.at(key_node), loc, "a key must be a plain word"))
            elif key in content:
                self.faults.append(Fault(self.at(key_node), (*loc, key), f"the key {key!r} stands here twice"))
            else:
                content[key] = self.value(value_node, (*loc, key))
                self.document.keys[(*loc, key)] = self.at(key_node)
        return content

    def at(self, node: yaml.Node) -> str:
        return f"{self.document.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _syntax_fault(error: Exception, name: str) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{name}:{mark.line + 1}:{mark.column + 1}: not valid YAML: {error.problem}"
    if isinstance(error, RecursionError):
        return f"{name}: nested too deeply"
    return f"{name}: not valid YAML: {str(error).splitlines()[0]}"


def override(document: Document, changes: Sequence[str]) -> Document:
    """Apply `a.b.0.c=value` arguments; values are read as YAML."""
    faults: list[str] = []
    given: dict[str, str] = {}
    for change in changes:
        path, equals, text = change.partition("=")
        try:
            if not equals or not path:
                raise ConfigError(f"{change!r} is not of the form key=value")
            for other, before in given.items():
                if path == other or path.startswith(f"{other}.") or other.startswith(f"{path}."):
                    raise ConfigError(f"{change!r}: {path} is given twice, the first time by {before!r}")
            given[path] = change
            value = parse(text, f"{change!r}").data if text.strip() else None
            put(document, path.split("."), value, change)
        except ConfigError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigError(*faults)
    return document


def put(document: Document, path: list[str], value: Any, change: str) -> None:
    """Put a value at a key by its path; messages call it `change`."""
    here, loc = document.data, ()  # type: tuple[Any, Loc]
    for depth, word in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(here, list):
            if not word.isdecimal() or int(word) >= len(here):
                raise ConfigError(
                    f"{change!r}: {'.'.join(path[:depth])} has entries 0 to {len(here) - 1}, not {word!r}"
                )
            key: Key = int(word)
        elif isinstance(here, dict):
            key = word
        else:
            raise ConfigError(f"{change!r}: {'.'.join(path[:depth])} holds a single value, not keys")
        loc = (*loc, key)
        if last:
            here[key] = value
            for known in (document.places, document.keys):  # forget the places of the old value and of all inside it
                for stale in [k for k in known if k[: len(loc)] == loc]:
                    del known[stale]
            document.places[loc] = document.keys[loc] = repr(change)
        elif isinstance(here, dict):
            if word not in here:
                document.places[loc] = document.keys[loc] = repr(change)
            here = here.setdefault(word, {})
        else:
            here = here[int(word)]


def check(document: Document, schema: type[M]) -> M:
    """The document as an instance of its schema; raises one error with all faults and their places."""
    return check_as(document, TypeAdapter(schema), schema)


def check_as(document: Document, adapter: TypeAdapter[T], schema: Any) -> T:
    """The same for a schema that is not a class, such as a union."""
    if strange := list(_strange(document.data, ())):
        raise ConfigError(*(Fault(document.place(loc), loc, f"{dotted(loc)}: {text}") for loc, text in strange))
    try:
        made = adapter.validate_python(document.data)
    except ValidationError as error:
        raise ConfigError(*(_fault(document, schema, detail) for detail in error.errors())) from error
    if taken := list(_taken_for_numbers(document.data, made, ())):
        texts = {loc: f"{dotted(loc)}: should be a number (found {value})" for loc, value in taken}
        raise ConfigError(*(Fault(document.place(loc), loc, text) for loc, text in texts.items()))
    return made


def _strange(data: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    """Values that cannot be written or drawn, whatever the schema says: (key, what is wrong)."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _strange(value, (*loc, key))
    elif isinstance(data, str):
        signs = sorted({sign for sign in data if unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\n\t"})
        if signs:
            yield loc, f"holds {', '.join(map(ascii, signs[:5]))}, which cannot be shown"
    elif isinstance(data, int) and abs(data) >= MAX_NUMBER:
        yield loc, "the number is too large"


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _taken_for_numbers(data: Any, made: Any, loc: Loc) -> Iterator[tuple[Loc, bool]]:
    """Every true or false that pydantic has read as 1 or 0: `count: yes` would mean one episode."""
    if isinstance(data, bool) and not isinstance(made, bool):
        yield loc, data
    elif isinstance(data, dict):
        for key, value in data.items():
            if isinstance(made, dict) or hasattr(made, key):  # otherwise it became something else
                yield from _taken_for_numbers(
                    value, made[key] if isinstance(made, dict) else getattr(made, key), (*loc, key)
                )
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _taken_for_numbers(value, made[index], (*loc, index))


def _fault(document: Document, schema: Any, detail: ErrorDetails) -> Fault:
    """What pydantic found, with its place in the file and the nearest valid name."""
    loc = _path(document.data, detail["loc"])
    place, where = document.place(loc), dotted(loc)
    if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        allowed = _allowed(str(loc[-1]), keys_at(schema, detail["loc"][:-1]))
        return Fault(document.keys.get(loc, place), loc, f"unknown key {where!r}; {allowed}")
    if detail["type"].startswith("union_tag"):
        return _tag_fault(document, loc, detail)
    message = detail["msg"].removeprefix("Value error, ").replace("tuple", "list")
    message = message.replace("a valid dictionary or object to extract fields from", "keys with values")
    value = (
        "" if detail["type"] == "missing" or isinstance(detail["input"], dict) else f" (found {_cut(detail['input'])})"
    )
    return Fault(place, loc, f"{where or 'file'}: {message[:1].lower()}{message[1:]}{value}")


def _tag_fault(document: Document, loc: Loc, detail: ErrorDetails) -> Fault:
    """The key that chooses among several kinds is missing, or names none of them."""
    context = detail.get("ctx", {})
    key = str(context["discriminator"]).strip("'")
    chooses = (*loc, key)
    if "tag" not in context:
        return Fault(document.place(loc), chooses, f"{dotted(chooses)}: is missing")
    choices = [word.strip(" '") for word in context["expected_tags"].split(",")]
    return Fault(document.place(chooses), chooses, f"{dotted(chooses)}: {unknown(key, context['tag'], choices)}")


def _path(data: Any, loc: Loc) -> Loc:
    """The key of a fault in the file: pydantic's, without the names of the union members on the way."""
    path: Loc = ()
    for number, key in enumerate(loc):
        inside = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(inside, dict) and key in inside:
            path, data = (*path, key), inside[key]
        elif number == len(loc) - 1 and isinstance(data, dict):
            path = (*path, key)
    return path


def _allowed(given: str, names: list[str]) -> str:
    close = nearest(given, names)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"allowed: {', '.join(names)}"
