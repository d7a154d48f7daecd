"""One forward pass through nnsight: the single place where the library is called.

The trace's body is one fixed line that hands over to ordinary Python. Hooks are visited in the order in which the
forward pass meets them (nnsight requires it); at each, the edits are applied in turn and the result is read, so that
edits compose and reads see edited values. Editing makes a new tensor: a hook's output is shared with its producer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from steer.base.errors import SteerError
from steer.engine.backends.mounting import NNsight
from steer.models.plain.transformer import State, Transformer

Change = Callable[
    [Tensor, Mapping[str, Tensor]], Tensor
]  # a hook's value and what the pass has met before -> new value


class Tracer:
    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.traced = NNsight(model)

    def run(
        self, state: State, start: str, stop: str | None, changes: Mapping[str, Sequence[Change]], reads: Sequence[str],
        order: Sequence[str],
    ) -> dict[str, Tensor]:  # fmt: skip
        """Take the steps from start to stop, applying changes at hooks; give what was read, by hook."""
        wanted = set(reads) | set(changes)
        paths = [path for path in order if path in wanted]
        found: dict[str, Tensor] = {}
        try:
            with self.traced.trace(state, start, stop, fn=self.model.run):
                visit(self.traced, paths, changes, found)
        except SteerError:
            raise
        except Exception as error:
            place = paths[len(found)] if len(found) < len(paths) else "after the last site"
            raise SteerError(f"at {place}: {type(error).__name__}: {str(error).strip().splitlines()[-1]}") from error
        return {path: found[path] for path in reads}


def visit(traced: Any, paths: Sequence[str], changes: Mapping[str, Sequence[Change]], found: dict[str, Tensor]) -> None:
    for path in paths:
        hook = traced.get(path)
        value = hook.output
        for change in changes.get(path, ()):
            value = change(value, found)
        if path in changes:
            hook.output = value
        found[path] = value
