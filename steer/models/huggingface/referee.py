"""The referee: a model's own forward pass, with what it met on the way, by the names that the steps have for it.

It knows from the row where modules are and nothing of how they are put together: what a layer is given, what goes into
and comes out of an output projection, what an MLP writes, and the patterns that the model itself gives out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from steer.anatomy.layout import Block
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.huggingface.parts import Attention, Stack
from steer.models.huggingface.steps import path_of
from steer.models.protocol import Batch

Met = dict[str, Tensor]  # by hook


def inputs_of(model: HuggingFaceModel, batch: Batch) -> dict[str, Tensor]:
    """A batch as the model's own forward takes it: masks always, and positions that count real tokens."""
    *prompt, answer = (stream.sequence for stream in model.layout.streams)
    ids, mask = batch.tokens[answer], batch.real[answer].long()
    if not prompt:
        return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
    given = {"input_ids": batch.tokens[prompt[0]], "attention_mask": batch.real[prompt[0]].long()}
    return given | {"decoder_input_ids": ids, "decoder_attention_mask": mask}


def parts_of(model: HuggingFaceModel, batch: Batch) -> Iterator[tuple[list[int], Batch]]:
    """A batch as it is; in float64 row by row and without padding, with the numbers of its rows.

    The models' own masks hold the least float64, which their float32 softmax takes for minus infinity: a row of padding
    that may look nowhere becomes NaN, and real tokens with it.
    """
    if model.like.dtype != torch.float64:
        yield list(range(len(batch.rows))), batch
        return
    for row in range(len(batch.rows)):
        own = {name: real[row] for name, real in batch.real.items()}
        tokens = {name: ids[row : row + 1, own[name]] for name, ids in batch.tokens.items()}
        real = {name: torch.ones_like(ids, dtype=torch.bool) for name, ids in tokens.items()}
        yield [row], replace(batch, rows=[row], tokens=tokens, real=real, places={})


@torch.no_grad()
def own_forward(model: HuggingFaceModel, batch: Batch) -> Met:
    """What the model's own forward pass meets, and its logits, all heads' values side by side."""
    met: Met = {}
    with watching(model, met):
        out = model.module.model(**inputs_of(model, batch), use_cache=False, output_attentions=True)
    for block in model.layout.blocks:
        if block.heads:
            met[f"{path_of(block)}.pattern"] = _patterns(model, block, out)[block.layer or 0]
    met["logits"] = out.logits
    return met


def _patterns(model: HuggingFaceModel, block: Block, out: Any) -> tuple[Tensor, ...]:
    if len(model.layout.streams) == 1:
        return tuple(out.attentions)
    if dict(block.reads)["k"] != block.writes:
        return tuple(out.cross_attentions)
    return tuple(out.encoder_attentions if block.writes == "enc" else out.decoder_attentions)


@contextmanager
def watching(model: HuggingFaceModel, met: Met) -> Iterator[None]:
    """What passes the model's own modules, while this is open."""

    def before(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Tensor, ...], given: Mapping[str, Any]) -> None:
            met[name] = args[0] if args else given["hidden_states"]

        return hook

    def after(name: str) -> Any:
        def hook(module: nn.Module, args: Any, out: Tensor) -> None:
            met[name] = out

        return hook

    with ExitStack() as open_hooks:
        for name, module, ahead in places(model):
            if ahead:
                handle = module.register_forward_pre_hook(before(name), with_kwargs=True)
            else:
                handle = module.register_forward_hook(after(name))
            open_hooks.callback(handle.remove)
        yield


def places(model: HuggingFaceModel) -> Iterator[tuple[str, nn.Module, bool]]:
    """Hook of the steps, the model's own module, and whether it is what goes in (or what comes out)."""
    network = model.module.model
    for name, stack in model.row.stacks.items():
        home = network.get_submodule(stack.path)
        if not stack.scale:  # else the embedding is scaled outside its module
            yield f"{name}_embed.tok", home.get_submodule(stack.tokens), False
        if stack.final:
            yield "memory" if name == "enc" else "final", home.get_submodule(stack.final), False
        layers = home.get_submodule(stack.layers)
        for block in model.layout.blocks:
            if block.writes == name and block.layer is not None:
                yield from _block_places(block, stack, layers.get_submodule(str(block.layer)))


def _block_places(block: Block, stack: Stack, layer: nn.Module) -> Iterator[tuple[str, nn.Module, bool]]:
    path = path_of(block)
    if not block.heads:
        yield f"{path}.out", layer.get_submodule(stack.mlp.chain[-1]), False
        return
    crossed = dict(block.reads)["k"] != block.writes
    attention: Attention | None = stack.cross_attention if crossed else stack.self_attention
    assert attention is not None
    output = layer.get_submodule(attention.path).get_submodule(attention.o)
    if not crossed:
        yield f"{path}.resid", layer, True
    yield f"{path}.z", output, True
    yield f"{path}.out", output, False
