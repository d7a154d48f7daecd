"""One forward pass through nnsight: the single place where the library is called.

The trace's body is one fixed line that hands over to ordinary Python. Hooks are visited in the order in which the
forward pass meets them (nnsight requires it); at each, the edits are applied in turn and the result is read, so that
edits compose and reads see edited values. Editing makes a new tensor: a hook's output is shared with its producer.

A pass that edits nothing only listens, with PyTorch's own hooks: whoever just looks need not wait for the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from steer.base.errors import SteerError

Change = Callable[
    [Tensor, Mapping[str, Tensor]], Tensor
]  # a hook's value and what the pass has met before -> new value


class Local:
    """Passes on this machine: the module's own steps, wrapped by nnsight."""

    whole = False  # a pass may start midway

    def __init__(self, module: Any) -> None:
        self.module = module

    def reaches(self, hook: str) -> bool:
        """Are the values of a hook to be had where the passes run?"""
        return True

    def change(self, worlds: Any, edit: Any) -> Change:
        """An edit as a pass takes it."""
        made: Change = worlds.change(edit)
        return made

    @cached_property
    def traced(self) -> Any:
        """Imported when the first edit is made: the library takes as long to load as a small model to run."""
        from steer.engine.backends.mounting import NNsight

        return NNsight(self.module)

    def run(
        self, state: Any, start: str, stop: str | None, changes: Mapping[str, Sequence[Change]], reads: Sequence[str],
        order: Sequence[str],
    ) -> dict[str, Tensor]:  # fmt: skip
        """Take the steps from start to stop, applying changes at hooks; give what was read, by hook."""
        wanted = set(reads) | set(changes)
        hooks = [hook for hook in order if hook in wanted]
        seen: dict[str, Tensor] = {}
        try:
            if changes:
                with self.traced.trace(state, start, stop, fn=self.module.run):
                    visit(self.traced, hooks, changes, seen)
            else:
                self.listen(state, start, stop, hooks, seen)
        except SteerError:
            raise
        except Exception as error:
            place = hooks[len(seen)] if len(seen) < len(hooks) else "the end"
            raise PassError(f"the pass from {start} failed at {place}: {type(error).__name__}: {error}") from error
        return {hook: seen[hook] for hook in reads}

    def listen(self, state: Any, start: str, stop: str | None, hooks: Sequence[str], seen: dict[str, Tensor]) -> None:
        """The same steps, and what passes through the hooks on the way."""

        def keep(name: str) -> Callable[[Any, Any, Tensor], None]:
            return lambda module, given, value: seen.update({name: value})

        listening = [self.module.get_submodule(name).register_forward_hook(keep(name)) for name in hooks]
        try:
            self.module.run(state, start, stop)
        finally:
            for one in listening:
                one.remove()


class PassError(RuntimeError):
    """A forward pass failed: a bug, not a fault of an input, so it is shown with its traceback."""


def visit(traced: Any, hooks: Sequence[str], changes: Mapping[str, Sequence[Change]], seen: dict[str, Tensor]) -> None:
    for name in hooks:
        hook = traced.get(name)
        value = hook.output
        for change in changes.get(name, ()):
            value = change(value, seen)
        if name in changes:
            hook.output = value
        seen[name] = value
