"""`sweep:` crosses keys of a recipe: one recipe for every combination of their values.

A name in `sweep` is a key of the recipe by its path (`seed`, `k`, `conditions.0.edits.0.scale`), or a word of the
user's own that stands in braces in the recipe's texts: `sites: "enc-self-{layer}.*.z"` with `sweep: {layer: [0, 1]}`.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from itertools import product
from json import dumps
from typing import Any

from steer.base.errors import ConfigError, Fault
from steer.base.yaml import Document, put
from steer.results.rows import Level, Row

SWEEP, FIGURE = "sweep", "figure"
MOST = 400  # combinations
TAKEN = {field.name for field in fields(Row)}


def is_sweep(document: Document) -> bool:
    return isinstance(document.data, dict) and bool(document.data.get(SWEEP))


def points_of(document: Document) -> list[tuple[tuple[Level, ...], Document]]:
    """The levels of every combination, and the recipe that it means."""
    wanted = document.data[SWEEP]
    if faults := list(_faults(document, wanted)):
        raise ConfigError(*faults)
    names = list(wanted)
    return [
        (tuple(_level(name, value) for name, value in zip(names, values, strict=True)), _at(document, names, values))
        for values in product(*wanted.values())
    ]


def _faults(document: Document, wanted: Any) -> list[Fault]:
    place = document.place((SWEEP,))
    if not isinstance(wanted, dict):
        return [Fault(place, (SWEEP,), "sweep: should be keys with lists of values")]
    faults = [
        Fault(document.place((SWEEP, name)), (SWEEP, name), f"sweep.{name}: should be a list of values")
        for name, values in wanted.items()
        if not isinstance(values, list) or not values
    ]
    faults += [
        Fault(document.place((SWEEP, name)), (SWEEP, name), f"sweep.{name}: a value stands there twice")
        for name, values in wanted.items()
        if isinstance(values, list) and len({dumps(value, default=str) for value in values}) < len(values)
    ]
    count = 1
    for values in wanted.values():
        count *= len(values) if isinstance(values, list) else 1
    if count > MOST:
        faults.append(Fault(place, (SWEEP,), f"sweep: {count:,} combinations; at most {MOST} are run"))
    return faults


def _level(name: str, value: Any) -> Level:
    """A column of the table; one that has a name already is not overwritten."""
    said = value if isinstance(value, int | float | str) and not isinstance(value, bool) else dumps(value)
    return (f"{name} (swept)" if name in TAKEN else name, said)


def _at(document: Document, names: list[str], values: tuple[Any, ...]) -> Document:
    """The recipe with these values."""
    rest = {key: value for key, value in document.data.items() if key != SWEEP}
    made = Document(document.name, deepcopy(rest), dict(document.places), dict(document.keys))
    made.data.setdefault(FIGURE, "dose")
    for name, value in zip(names, values, strict=True):
        filled, count = _filled(made.data, f"{{{name}}}", value)
        if count:
            made.data = filled
        else:
            put(made, name.split("."), value, f"sweep: {name}={value}")
    made.data[SWEEP] = deepcopy(document.data[SWEEP])
    return made


def _filled(data: Any, word: str, value: Any) -> tuple[Any, int]:
    """The data with a word in braces replaced in all texts, and how often it stood there."""
    if isinstance(data, str):
        count = data.count(word)
        return (value if data == word else data.replace(word, str(value))), count
    if isinstance(data, list):
        parts = [_filled(one, word, value) for one in data]
        return [one for one, _ in parts], sum(count for _, count in parts)
    if isinstance(data, dict):
        inside = {key: _filled(one, word, value) for key, one in data.items()}
        return {key: one for key, (one, _) in inside.items()}, sum(count for _, count in inside.values())
    return data, 0
