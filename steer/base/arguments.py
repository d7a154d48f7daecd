"""What a verb is handed from Python is of a kind that it can read: otherwise one message says which is wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from os import PathLike
from typing import Any, TypeVar

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


def _path(given: object) -> bool:
    return isinstance(given, str | PathLike)


def _many(given: object) -> bool:
    return isinstance(given, Iterable) or hasattr(given, "prompt")


def _paths(given: object) -> bool:
    return isinstance(given, tuple) and all(map(_path, given))


def _result(given: object) -> bool:
    return _path(given) or hasattr(given, "rows")


KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {  # name of an argument -> what it is, and whether it is
    **dict.fromkeys(("prompt", "head", "preset"), ("a text", _text)),
    "heads": ("a name or a pattern of names", _text),
    **dict.fromkeys(("episode", "n", "start"), ("a whole number", _whole)),
    "seed": ("a whole number from 0 on", _seed),
    **dict.fromkeys(("out", "folder", "file"), ("a path", _path)),
    "files": ("paths", _paths),
    **dict.fromkeys(("first", "second"), ("a result or its folder", _result)),
    **dict.fromkeys(("sites", "swap", "formats"), ("a list of names", _texts)),
    "changes": ("a list of `key=value`, or a dict", _texts),
    "example": ("a text or an example", lambda given: _text(given) or hasattr(given, "prompt")),
    "prompts": ("a list of texts", _many),
}


def checked(verb: F) -> F:
    """A verb that answers an argument of the wrong kind before it begins, and a file that cannot be read or written."""
    signature = inspect.signature(verb)

    @wraps(verb)
    def asked(*given: Any, **named: Any) -> Any:
        _check(signature, signature.bind(*given, **named).arguments)
        try:
            return verb(*given, **named)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise SteerError(f"{place}{error.strerror or error}") from error

    return asked  # type: ignore[return-value]


def _check(signature: inspect.Signature, given: Mapping[str, object]) -> None:
    faults = []
    for name, value in given.items():
        if name not in KINDS or (value is None and signature.parameters[name].default is None):
            continue
        wanted, fits = KINDS[name]
        if not fits(value):
            faults.append(f"{name}: {wanted} is needed, not {value!r:.60}")
    if faults:
        raise SteerError(*faults)
