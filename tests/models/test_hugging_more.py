"""What clean runs of the families do not show: other padding, half precision, copies, positions, settings not taken."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hugging import CONFIGS, lifted, random_model, softmax_in_float64, some_batch, tokens  # noqa: F401 - a fixture
from torch import Tensor

from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.base.errors import CheckpointError, SteerError
from steer.engine.engine import Engine
from steer.engine.schedule import hook_order
from steer.models.huggingface.layout import layout_of, padding, row_of
from steer.models.huggingface.model import HuggingFaceModel, wire
from steer.models.protocol import Batch, Reading

CLOSE: dict[str, float] = {"rtol": 0, "atol": 1e-11}


def seen(one: HuggingFaceModel) -> tuple[Batch, Reading]:
    batch = some_batch(one)
    return batch, Reading(one, Engine(one).hooks(batch, hook_order(one.layout, one.steps)))


@torch.no_grad()
def logits(one: HuggingFaceModel, ids: Tensor, real: Tensor) -> Tensor:
    name = one.layout.answer
    return one.module.run(one.state(Batch(0, [0], {name: ids}, {name: real}, ids), {})).logits


@pytest.mark.usefixtures("softmax_in_float64")
@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "mistral"])
def test_padding_may_stand_on_either_side(family: str):
    one, (ids, real) = lifted(family), tokens(1, 6, seed=4, shorter=0)
    nothing = torch.zeros(1, 3, dtype=torch.long)
    padded = logits(one, torch.cat([nothing, ids], 1), torch.cat([nothing.bool(), real], 1))
    torch.testing.assert_close(padded[:, 3:], logits(one, ids, real), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_padding_that_may_look_nowhere_is_still_a_number(dtype: torch.dtype):
    """The first columns, which are padding, see nothing but padding; the softmax is in float32."""
    one, (ids, real) = wire(random_model("llama", dtype=dtype)), tokens(1, 6, seed=4, shorter=0)
    assert logits(one, ids, real & (torch.arange(6) > 2)).isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_patterns_in_every_precision_are_the_models_own(family: str, dtype: torch.dtype):
    """Some families take the softmax in float32, whatever the weights are: bitwise, or it is another model."""
    one = wire(random_model(family, dtype=dtype))
    batch, values = seen(one)
    (name,) = batch.tokens
    given = {"input_ids": batch.tokens[name], "attention_mask": batch.real[name].long()}
    theirs = one.module.model(**given, output_attentions=True, use_cache=False).attentions
    first = [head for head in one.layout.heads if head.layer == 0]  # later ones have sums in another order before them
    assert first
    for head in first:
        ours, wanted = values[Site(head, "pattern")], theirs[0][:, head.head]
        assert torch.equal(ours[batch.real[name]], wanted[batch.real[name]]), head


@torch.no_grad()
@pytest.mark.usefixtures("softmax_in_float64")
@pytest.mark.parametrize("family", ["t5", "bart"])
def test_what_a_head_copies_is_its_value_through_its_own_part_of_the_output(family: str):
    """The whole output projection, fed with nothing but this head's values."""
    one = lifted(family)
    _, values = seen(one)
    memory = values[one.layout.streams[0].read_as]
    heads = [head for head in one.layout.heads if head.kind == "dec-cross"]
    assert heads
    for head in heads:
        module = one._attention(head).heads
        z = memory.new_zeros(*memory.shape[:2], module.count, module.size)
        z[:, :, head.head] = values[Site(head, "v")]
        written = module.join(z) - module.join(torch.zeros_like(z))
        torch.testing.assert_close(one.copied(head, memory), written, **CLOSE)


@pytest.mark.usefixtures("softmax_in_float64")
@pytest.mark.parametrize("family", ["gpt2", "bart", "marian", "t5", "llama"])
def test_what_no_text_changes_is_fixed(family: str):
    """Position embeddings are the same in every example, so that a mean over examples at each place is no ablation."""
    one = lifted(family)
    batch, values = seen(one)
    for node in (node for node in one.layout.nodes if not one.layout.inputs(node)):
        value = values[Site(node)][:2]  # two texts of one length
        assert one.layout.is_fixed(node) == torch.equal(value[0], value[1]), node
    assert any(map(one.layout.is_fixed, one.layout.nodes)) == (Node("dec.pos") in one.layout.nodes)
    assert len(batch.rows) > 2


REFUSED: list[tuple[str, dict[str, Any]]] = [
    *((family, {"rope_parameters": {"rope_type": kind}}) for family in ("llama", "gpt_neox", "gemma2")
      for kind in ("dynamic", "longrope")),
    ("gpt2", {"reorder_and_upcast_attn": True}),
    ("gpt2", {"add_cross_attention": True}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "settings"), REFUSED, ids=str)
def test_settings_that_a_row_does_not_describe_are_refused(family: str, settings: dict[str, Any]):
    config, _, keys = CONFIGS[family]
    told = config(**keys).to_dict()
    layout_of(told)
    (key,) = settings
    inner = settings[key]
    with pytest.raises(CheckpointError, match=f"{next(iter(inner)) if isinstance(inner, dict) else key}: .*supported"):
        layout_of(told | settings)


@pytest.mark.parametrize("told", [{"model_type": ["gpt2"]}, {"model_type": {}}, {"model_type": None}, {}], ids=str)
def test_a_family_that_is_no_name_is_refused(told: dict[str, Any]):
    with pytest.raises(CheckpointError, match=r"config.json: .*the families with a row are"):
        row_of(told, "config.json")


@pytest.mark.parametrize("classes", [3, "GPT2LMHeadModel", [["GPT2LMHeadModel"]], {"a": 1}], ids=str)
def test_classes_that_are_no_list_of_names_are_refused(classes: Any):
    with pytest.raises(CheckpointError, match="architectures: a list of names"):
        row_of({"model_type": "gpt2", "architectures": classes}, "config.json")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("1.2x", ""), ("1.2", "dec-self-1.2"), ("hook_embedding", ""), ("hook_embed", "dec.tok"), ("l1h2z", "")],
)
def test_only_a_whole_name_of_other_tools_is_one(text: str, wanted: str):
    config, _, keys = CONFIGS["llama"]
    names = Names(layout_of(config(**keys).to_dict()))
    if wanted:
        assert [str(node) for node in names.nodes(text)] == [wanted]
    else:
        with pytest.raises(SteerError, match="no head or node named"):
            names.nodes(text)


@pytest.mark.parametrize(("family", "closes"), [("t5", True), ("llama", False)])
def test_the_first_of_several_ends_closes_an_answer(family: str, closes: bool):
    """A decoder's answers go on as the text would: it fills shorter rows there, if nothing else does."""
    config, _, keys = CONFIGS[family]
    known = config(**keys).to_dict() | {"decoder_start_token_id": 3, "pad_token_id": 4 if closes else None}
    for given in (7, [7, 2]):
        made = padding(row_of(known, "config.json"), known | {"eos_token_id": given}, "config.json")
        assert made == ((4, 3, 7) if closes else (7, 0, None))
