"""A wired model's steps taken with plain PyTorch hooks, no engine: what is met, and what a change does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from steer.models.huggingface.model import HuggingFaceModel
from steer.models.protocol import Batch

Change = Callable[[Tensor], Tensor]


@torch.no_grad()
def met_on(
    model: HuggingFaceModel, batch: Batch, changes: Mapping[str, Change] | None = None, start: str | None = None,
    clean: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Every hook's value in the order in which it is met, after the changes; from a step on, if one is given."""
    met: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def hook(module: nn.Module, args: Any, value: Tensor) -> Tensor:
            met[name] = changes[name](value) if changes and name in changes else value
            return met[name]

        return hook

    given = (
        {} if start is None else {field: (clean or {})[hook] for field, hook in model.steps.given(start, None).items()}
    )
    with ExitStack() as open_hooks:
        for name, module in model.module.hooks.items():
            open_hooks.callback(module.register_forward_hook(watch(name)).remove)
        model.module.run(model.state(batch, given), start)
    return met
