"""What a verb is handed from Python is of a kind that it can read: otherwise one message says which is wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from os import PathLike
from typing import Any, TypeAlias, TypeVar

from steer.base.errors import SteerError

F = TypeVar("F", bound=Callable[..., Any])


def _texts(given: object) -> bool:
    if isinstance(given, str | Mapping):
        return True
    return isinstance(given, Collection) and all(isinstance(one, str) for one in given)  # what is read once is no list


def _text(given: object) -> bool:
    return isinstance(given, str)


def _whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _seed(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _path(given: object) -> bool:
    return isinstance(given, str | PathLike) and str(given) != "" and "\0" not in str(given)


def _many(given: object) -> bool:
    return isinstance(given, Iterable) or hasattr(given, "prompt")


def _sizes(given: object) -> bool:
    return _text(given) or _whole(given) or (isinstance(given, Collection) and all(map(_size, given)))


def _size(given: object) -> bool:
    return _text(given) or _whole(given)


def _pair(given: object) -> bool:
    return isinstance(given, Collection) and len(given) == 2 and all(map(_whole, given))


def _paths(given: object) -> bool:
    return _path(given) or (isinstance(given, Collection) and all(map(_path, given)))


def _result(given: object) -> bool:
    return _path(given) or hasattr(given, "rows")


Kind: TypeAlias = tuple[str, Callable[[object], bool]]  # what it is, and whether something is one
NAMES: Kind = ("a list of names", _texts)
KINDS: dict[str, Kind] = {  # by what a verb says of an argument, `None` left out
    "str": ("a text", _text),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "bool": ("True or False", lambda given: isinstance(given, bool)),
    "Sequence[str | Path] | str | Path": ("a name, a path, or a list of them", _paths),
    **dict.fromkeys(("Path | str", "str | Path", "Path"), ("a path", _path)),
    **dict.fromkeys(("Sequence[str]", "Sequence[str] | str", "str | Sequence[str]", "tuple[str, str]"), NAMES),
    "Changes": ("a list of `key=value`, or a dict", _texts),
    "Result | Path | str": ("a result or its folder", _result),
    "Example | str": ("a text or an example", lambda given: _text(given) or hasattr(given, "prompt")),
    "Sequence[Any] | str": ("a list of texts", _many),
    "int | str | Sequence[int | str]": ("a number, `all`, or a list of them", _sizes),
    "tuple[int, int]": ("a pair of whole numbers", _pair),
}
NAMED: dict[str, Kind] = {  # by its own name, where less is allowed, or more
    "seed": ("a whole number from 0 on", _seed),
    **dict.fromkeys(("name", "like"), ("a name or a path", _path)),
}


def kind_of(parameter: inspect.Parameter) -> Kind | None:
    """What an argument must be, if that can be told from what the verb says of it."""
    said = str(parameter.annotation).removesuffix(" | None")
    if said.startswith("Callable["):
        return ("a function", callable)
    return NAMED.get(parameter.name) or KINDS.get(said)


def checked(verb: F) -> F:
    """A verb that answers an argument of the wrong kind before it begins, and a file that cannot be read or written."""
    signature = inspect.signature(verb)

    @wraps(verb)
    def checking(*given: Any, **named: Any) -> Any:
        _check(signature, signature.bind(*given, **named).arguments)
        try:
            return verb(*given, **named)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise SteerError(f"{place}{error.strerror or error}") from error

    return checking  # type: ignore[return-value]


def _check(signature: inspect.Signature, given: Mapping[str, object]) -> None:
    faults = []
    for name, value in given.items():
        parameter = signature.parameters[name]
        kind = kind_of(parameter)
        if kind is None or (value is None and str(parameter.annotation).endswith("None")):
            continue
        wanted, fits = kind
        several = value if parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, tuple) else (value,)
        faults += [f"{name}: {wanted} is needed, not {one!r:.60}" for one in several if not fits(one)]
    if faults:
        raise SteerError(*faults)
