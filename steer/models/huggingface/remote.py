"""A Hugging Face model that somebody else runs: here are its names, sizes and tokens, there its weights.

A server runs the stock module, so a site exists there only where a module of the model takes it in or gives it out (it
has a *tap*). Whatever would need weights here is refused with that reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor

from steer.anatomy.names import Names
from steer.base.errors import CheckpointError, SteerError
from steer.models.huggingface.encoding import Frame
from steer.models.huggingface.family import tokenizer_of
from steer.models.huggingface.layout import layout_of, padding
from steer.models.huggingface.model import HuggingFaceModel, wire
from steer.models.huggingface.place import Place, read_config
from steer.models.huggingface.referee import places
from steer.models.huggingface.subject import HuggingFaceSubject
from steer.models.vocabulary import Vocabulary
from steer.results.provenance import Weights
from steer.tasks import TASKS
from steer.tasks.task import Example

ELSEWHERE = "on a server"


@dataclass(frozen=True)
class Tap:
    """Where a server's model has the values of a hook."""

    path: str  # of the module; empty: the model itself, of which the logits are read
    ahead: bool  # what goes in, not what comes out
    sizes: tuple[int, ...] = ()  # heads and their size, where one axis holds both


def _refused(*given: Any) -> NoReturn:
    raise SteerError("it is computed from the model's weights, which are on the server: run it without --remote")


@dataclass(frozen=True, eq=False)
class RemoteModel(HuggingFaceModel):
    """The module's weights have sizes and no values."""

    @cached_property
    def like(self) -> Tensor:
        weight = self.module.like
        return torch.empty(weight.shape, dtype=weight.dtype)

    @cached_property
    def taps(self) -> dict[str, Tap]:
        """By hook. The hooks of a block's own sum are nobody's site."""
        paths = {module: name for name, module in self.module.model.named_modules()}
        known = set(map(self.steps.hook, self.layout.sites))
        taps = {
            hook: Tap(paths[module], ahead, self.size(hook) if hook.endswith(".z") else ())
            for hook, module, ahead in places(self)
            if hook in known
        }
        return taps | {self.steps.hook(self.layout.logits): Tap("", False)}

    written: Any = _refused
    folded: Any = _refused
    read: Any = _refused
    turned: Any = _refused
    copied: Any = _refused
    constant: Any = _refused
    directions: Any = _refused


@dataclass(frozen=True, eq=False)
class RemoteSubject(HuggingFaceSubject):
    model: RemoteModel

    def examine(self, examples: Sequence[Example]) -> None:
        """The model's own forward pass is what runs: there are no steps to compare it with."""


def check_sent(place: Place) -> None:
    """Raise where nnsight would not send such a model, or, of some families, its decoder alone."""
    if len(layout_of(read_config(place), place.name).streams) > 1:
        text = "it has an encoder, and nnsight sends models of the task text-generation only, which have none"
        raise CheckpointError(f"{place.name}: {text}: run it without --remote")


def remote_subject(place: Place, network: Any) -> RemoteSubject:
    """`network`: the model's modules without values."""
    wired = wire(network, place.name)
    tokenizer = tokenizer_of(place)
    before, after = tokenizer.around
    frame = Frame(Vocabulary(tokenizer.names, *padding(wired.row, read_config(place), place.name)), before, after)
    weights = Weights(place.name, commit=place.commit, config=ELSEWHERE)
    model = RemoteModel(wired.module, frame)
    return RemoteSubject(place.name, Names(model.layout), model, TASKS["prompts"], weights)
