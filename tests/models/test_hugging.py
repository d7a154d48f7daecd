"""Own steps over tiny random Hugging Face models of every family, against the models' own forward pass."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hugging import FAMILIES, lifted, softmax_in_float64, some_batch  # noqa: F401 - a fixture
from torch import Tensor

from steer.anatomy.names import Names
from steer.anatomy.nodes import Site, parse_site
from steer.base.errors import SteerError
from steer.engine.engine import Engine
from steer.engine.schedule import hook_order
from steer.models.huggingface.checks import visible
from steer.models.huggingface.layout import layout_of
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.protocol import Batch, Reading

pytestmark = [pytest.mark.usefixtures("softmax_in_float64"), pytest.mark.parametrize("family", FAMILIES)]
CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-11}


@cache
def model(family: str) -> HuggingFaceModel:
    return lifted(family)


@cache
def seen(family: str) -> tuple[Batch, Reading]:
    """A clean run at every site."""
    one = model(family)
    batch = some_batch(one)
    return batch, Reading(one, Engine(one).hooks(batch, hook_order(one.layout, one.steps)))


def own_forward(one: HuggingFaceModel, batch: Batch) -> Tensor:
    """The model's own forward pass, which shares nothing with the steps but the weights."""
    *prompt, answer = (stream.sequence for stream in one.layout.streams)
    ids, mask = batch.tokens[answer], batch.real[answer].long()
    if prompt:
        given: dict[str, Any] = {"input_ids": batch.tokens["prompt"], "attention_mask": batch.real["prompt"].long()}
        given |= {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    else:
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
    with torch.no_grad():
        return one.module.model(**given, use_cache=False).logits


def test_the_steps_give_the_models_own_logits(family: str):
    batch, values = seen(family)
    real = batch.real[model(family).layout.answer]
    found, wanted = values[model(family).layout.logits][real], own_forward(model(family), batch)[real]
    torch.testing.assert_close(found, wanted, **CLOSE)


def test_attention_may_fall_on_real_tokens_that_do_not_come_later(family: str):
    """What the doctor takes for hidden, entry by entry: the padding of shorter rows, and a decoder's future."""
    one, hidden = model(family), 0
    batch = some_batch(one)
    for head in (head for head in one.layout.heads if head.head == 0):
        found, keys = visible(one, batch, head), batch.real[one.layout.looks_at(head)]
        for row, query, key in np.ndindex(*found.shape):
            allowed = bool(keys[row, key]) and (head.kind != "dec-self" or key <= query)
            assert bool(found[row, query, key]) == allowed
        hidden += int((~keys).sum())
    assert hidden


@torch.no_grad()
def test_a_pass_may_start_at_every_step(family: str):
    """From what the clean run left there, bitwise."""
    one, (batch, values) = model(family), seen(family)
    for start in one.steps.names:
        given = {field: values.hooks[hook] for field, hook in one.steps.given(start, None).items()}
        assert torch.equal(one.module.run(one.state(batch, given), start).logits, values.hooks["logits"]), start


@torch.no_grad()
def test_sources_fold_to_the_stream_and_ports_read_it(family: str):
    one, (batch, values) = model(family), seen(family)
    layout = one.layout
    for port in (*(site for node in layout.nodes for site in layout.inputs(node)), layout.logits):
        stream = one.folded(port, lambda node: values[layout.written(node)])
        torch.testing.assert_close(stream, values[layout.stream(port)], **CLOSE)
        if port != layout.logits:
            torch.testing.assert_close(one.read(port, stream, batch), values[port], **CLOSE)


@torch.no_grad()
def test_shares_sum_to_the_logit_before_its_cap(family: str):
    one, (_, values) = model(family), seen(family)
    layout, readout, token = one.layout, one.readout, 7
    direction = readout.rows[token].expand_as(values[layout.streams[-1].read_as])
    found = one.directions(values, direction)
    shares = [(values[layout.written(n)] * found.of[n]).sum(-1) for n in layout.nodes if layout.reaches_logits(n)]
    raw = sum(shares) + found.constant + readout.bias[token]
    torch.testing.assert_close(one.module.capped(raw), values[layout.logits][..., token], **CLOSE)


def test_batch_mates_and_padding_change_nothing(family: str):
    one, (batch, values) = model(family), seen(family)
    answer = one.layout.answer
    for row in batch.rows:
        length = {name: int(real[row].sum()) for name, real in batch.real.items()}
        cut = {name: ids[row : row + 1, : length[name]] for name, ids in batch.tokens.items()}
        real = {name: torch.ones_like(ids, dtype=torch.bool) for name, ids in cut.items()}
        alone = one.module.run(one.state(Batch(0, [0], cut, real, cut[answer]), {})).logits
        torch.testing.assert_close(alone[0], values[one.layout.logits][row, : length[answer]], **CLOSE)


def test_names_and_aliases(family: str):
    layout = layout_of(model(family).config.to_dict())
    assert layout == model(family).layout
    assert all(parse_site(str(site)) == site for site in layout.sites)
    names = Names(layout)
    if len(layout.streams) == 1:
        assert names.head("1.2") == names.head("L1H2") == names.head("dec-self-1.2")
        hooked = names.sites("blocks.1.attn.hook_k")
        port = "k-pre" if Site(layout.heads[0], "k-pre") in layout.sites else "k"
        assert hooked == [Site(node, port) for node in layout.heads if node.layer == 1]
    if "dec.pos" not in map(str, layout.nodes):
        with pytest.raises(SteerError, match="no position embeddings"):
            names.nodes("dec.pos")
