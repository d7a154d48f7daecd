"""A pickle read as data: nothing in it is called, and nothing is looked up.

Python's own reader runs what a pickle names. This one is a small stack machine over `pickletools.genops` that knows the
opcodes of plain data alone. A name becomes a `Named`, a call becomes a `Made`: the name, and the arguments. Names that
are not expected are refused at once, before anything that follows is read.
"""

from __future__ import annotations

import pickletools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from steer.base.errors import SteerError

ORDERED = "collections.OrderedDict"
CONSTANTS: Mapping[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINBYTES",
    "SHORT_BINBYTES",
}  # fmt: skip
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Named:
    """A function or class by its name, and nothing but the name."""

    name: str


@dataclass
class Made:
    """What would have been made by calling a name. `state`: what would have been set on it."""

    name: str
    args: tuple[Any, ...]
    state: Any = None


@dataclass(frozen=True)
class Stored:
    """A pickle's reference to a value that is stored outside of it."""

    reference: Any


def read_pickle(data: bytes, place: str, names: Collection[str], reasons: Mapping[str, str] | None = None) -> Any:
    """Plain data, `Made` and `Stored`. `names`: what may be asked for. `reasons`: why some other names are refused."""
    reader = _Reader(place, names, reasons or {})
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return reader.pop()
            reader.take(opcode.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise SteerError(f"{place}: the pickle is broken or cut short ({error})") from error
    raise SteerError(f"{place}: the pickle has no end")


class _Reader:
    def __init__(self, place: str, names: Collection[str], reasons: Mapping[str, str]) -> None:
        self.place, self.names, self.reasons = place, names, reasons
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # what stands under each mark
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def take(self, opcode: str, argument: Any) -> None:
        match opcode:
            case "PROTO" | "FRAME":
                pass
            case _ if opcode in CONSTANTS:
                self.stack.append(CONSTANTS[opcode])
            case _ if opcode in VALUES:
                self.stack.append(argument)
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                self.stack.append(self.memo[argument])
            case "GLOBAL":
                self.stack.append(self.named(argument.replace(" ", ".", 1)))
            case "STACK_GLOBAL":
                name, module = self.pop(), self.pop()
                self.stack.append(self.named(f"{module}.{name}"))
            case "INST":  # a name and a call in one; refused as an opcode, even if the name is allowed
                self.named(argument.replace(" ", ".", 1))
                self.make(opcode)
            case _:
                self.gather(opcode)

    def gather(self, opcode: str) -> None:
        """The opcodes that put what stands on the stack together."""
        match opcode:
            case "EMPTY_DICT":
                self.stack.append({})
            case "EMPTY_LIST":
                self.stack.append([])
            case "MARK":
                self.below.append(self.stack)
                self.stack = []
            case "TUPLE":
                items = self.pop_to_mark()
                self.stack.append(tuple(items))
            case _ if opcode in SHORT_TUPLES:
                items = [self.pop() for _ in range(SHORT_TUPLES[opcode])]
                self.stack.append(tuple(reversed(items)))
            case "APPEND" | "APPENDS":
                items = self.pop_to_mark() if opcode == "APPENDS" else [self.pop()]
                self.last(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self.pop_to_mark() if opcode == "SETITEMS" else [self.pop(), self.pop()][::-1]
                self.set_items(items)
            case _:
                self.make(opcode)

    def make(self, opcode: str) -> None:
        """The opcodes at which another reader would call something."""
        match opcode:
            case "REDUCE" | "NEWOBJ":
                arguments, what = self.pop(), self.pop()
                if not isinstance(what, Named) or not isinstance(arguments, tuple):
                    raise SteerError(f"{self.place}: calls something that is not a name")
                plain = what.name == ORDERED and not arguments
                self.stack.append({} if plain else Made(what.name, arguments))
            case "BUILD":
                state = self.pop()
                if isinstance(self.stack[-1], Made):
                    self.stack[-1].state = state
                else:
                    self.last(dict)  # attributes of an ordered dictionary (PyTorch's `_metadata`), which say nothing
            case "BINPERSID":
                self.stack.append(Stored(self.pop()))
            case _:
                raise SteerError(f"{self.place}: the pickle has an opcode that weights do not need ({opcode})")

    def named(self, name: str) -> Named:
        if name not in self.names:
            reason = self.reasons.get(name, "which no file of this kind needs; nothing of it was run")
            raise SteerError(f"{self.place}: asks for {name!r:.120}: {reason}")
        return Named(name)

    def last(self, kind: type[Any]) -> Any:
        if type(self.stack[-1]) is not kind:
            raise SteerError(f"{self.place}: the pickle is broken (a {kind.__name__} was expected)")
        return self.stack[-1]

    def set_items(self, items: list[Any]) -> None:
        target = self.last(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                raise SteerError(f"{self.place}: has a key that is neither text nor a number")
            target[key] = value
