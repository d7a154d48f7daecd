"""Whole forward passes on a server (NDIF), through nnsight: the stock module, edited and read where it has taps.

What goes there is data (token ids, the values that edits put in) and the functions below, by value: a server has
nnsight and torch, and nothing of steer. So they use nothing else of this project. What comes back is what was read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steer.base.errors import SteerError

Tree = tuple[Any, ...]  # a value as data: ("now",), ("is", tensor), ("scaled", by, tree), ("sum", trees), ("within", …)
Sent = tuple[int | None, Tree, Tensor | None]  # an edit: of one head or all, its value, the places (B T)
TASK = "text-generation"


def opened(repository: str, revision: str = "") -> Any:
    """A model of the Hub as nnsight sends it: modules without values."""
    from nnsight.modeling.transformers import TransformersModel

    from steer.engine.backends.mounting import NNsight  # noqa: F401 - first of all: it tidies up after the library

    named = {"revision": revision} if revision else {}
    return TransformersModel(repository, task=TASK, attn_implementation="eager", **named)


class Remote:
    """Passes elsewhere. `how`: what nnsight calls `remote`: True, a host, or "local" for a server of this process."""

    whole = True  # a pass cannot start midway

    def __init__(self, network: Any, taps: Mapping[str, Any], how: bool | str = True) -> None:
        self.network, self.taps, self.how = network, taps, how

    def reaches(self, hook: str) -> bool:
        return hook in self.taps

    def change(self, worlds: Any, edit: Any) -> Sent:
        return worlds.sent(edit)

    @cached_property
    def registered(self) -> None:
        import nnsight

        nnsight.register(sys.modules[__name__])

    def run(
        self, state: Any, start: str, stop: str | None, changes: Mapping[str, Sequence[Sent]], reads: Sequence[str],
        order: Sequence[str],
    ) -> dict[str, Tensor]:  # fmt: skip
        """One forward pass. The steps to start and stop at are the engine's own: a server knows none."""
        from nnsight import save

        self.registered  # noqa: B018 - once for all passes
        wanted = [hook for hook in order if hook in set(reads) | set(changes)]
        visits = [(hook, vars(self.taps[hook]), list(changes.get(hook, ())), hook in reads) for hook in wanted]
        given, network = inputs_of(state), self.network
        try:
            with torch.no_grad(), network.trace(**given, remote=self.how):
                saved: Any = save(visit(network, visits))
        except SteerError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[-300:]
            raise SteerError(f"the server did not run a forward pass ({type(error).__name__}: {reason})") from error
        return {hook: saved[hook] for hook in reads}


def inputs_of(state: Any) -> dict[str, Tensor]:
    """The tokens of a pass (one sequence) as the model's own forward takes them: positions count real tokens."""
    ((sequence, tokens),) = state.tokens.items()
    mask = state.real[sequence].long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, "use_cache": False}


def visit(network: Any, visits: Sequence[tuple[str, Mapping[str, Any], Sequence[Sent], bool]]) -> dict[str, Tensor]:
    """Edit and read at each tap, in the order in which the forward pass meets them."""
    values = {}
    for hook, tap, edits, is_read in visits:
        if not tap["path"]:
            values[hook] = network.output.logits
            continue
        module = network.get(tap["path"])
        value = module.input if tap["ahead"] else module.output
        value = value.unflatten(-1, tap["sizes"]) if tap["sizes"] else value
        for head, tree, places in edits:
            value = put(value, head, tree, places)
        if edits and tap["ahead"]:
            module.input = value.flatten(2)
        elif edits:
            module.output = value.flatten(2)
        if is_read:
            values[hook] = value
    return values


def put(value: Tensor, head: int | None, tree: Tree, places: Tensor | None) -> Tensor:
    """A hook's value with an edit made: in all of it or in one head's part, at all places or some."""
    part = value if head is None else value[:, :, head]
    new = valued(tree, part).to(part).expand_as(part)
    if places is not None:
        new = torch.where(places.to(part.device).reshape(*places.shape, *[1] * (part.ndim - 2)), new, part)
    if head is None:
        return new
    changed = value.clone()
    changed[:, :, head] = new
    return changed


def valued(tree: Tree, now: Tensor) -> Tensor:
    """The value that a tree stands for, given what the pass has there now."""
    name, *parts = tree
    if name == "now":
        return now
    if name == "is":
        return parts[0].to(now)
    if name == "scaled":
        return parts[0] * valued(parts[1], now)
    if name == "sum":
        return sum((valued(part, now) for part in parts[0][1:]), valued(parts[0][0], now))
    rows, around = parts[0].to(now), valued(parts[2], now)
    return around + (valued(parts[1], now) - around) @ rows.T @ rows
