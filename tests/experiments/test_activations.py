"""`steer.activations`: the same values as plain hooks on the bare module, one prompt at a time; padding is zero."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rig import disturb

import steer
from steer.models.checkpoint import Checkpoint, load_checkpoint

PROMPTS = [
    "B S A | A = red | B = blue | A S B = blue red",
    "C | C = pink | A = red | A S C = pink red | D F A = red red yellow | D = yellow",
    "A | A = red",
]
SITES = ["dec-cross-1.*.k", "dec-cross-0.2.pattern", "enc-mlp-1", "dec-self-1.0.z", "logits", "enc-self-0.3.out"]


@pytest.fixture(scope="module")
def disturbed() -> Checkpoint:
    """Biases and gains that are not zero and one."""
    shipped = load_checkpoint("seed1")
    return Checkpoint(disturb(shipped.transformer.double()), shipped.record, "seed1", shipped.circuit)


def hooked(checkpoint: Checkpoint, prompt: str, path: str) -> torch.Tensor:
    """What passes through a module when the model reads one prompt and its right answer, alone in its batch."""
    example, vocabulary = checkpoint.task.parse(prompt), checkpoint.vocabulary
    read = torch.tensor([vocabulary.encode(example.prompt)])
    said = torch.tensor([[vocabulary.start, *vocabulary.encode(example.answer)]])
    found: list[torch.Tensor] = []
    handle = checkpoint.transformer.get_submodule(path).register_forward_hook(lambda m, a, out: found.append(out))
    with torch.no_grad():
        checkpoint.transformer(read, said)
    handle.remove()
    return found[0][0]


def test_values_are_those_of_plain_hooks_and_padding_is_zero(disturbed: Checkpoint):
    found = steer.activations(disturbed, PROMPTS, SITES)
    assert len(found) == 8 + 5
    assert not any(module._forward_hooks for module in disturbed.transformer.modules())  # nothing is left behind
    paths = {
        "dec-cross-1.5.k": ("dec.1.cross_attn.k", lambda value: value[:, 5]),
        "dec-cross-0.2.pattern": ("dec.0.cross_attn.pattern", lambda value: value[2]),
        "dec-self-1.0.z": ("dec.1.self_attn.z", lambda value: value[:, 0]),
        "logits": ("logits", lambda value: value),
    }
    for site, (path, part) in paths.items():
        for number, prompt in enumerate(PROMPTS):
            wanted = part(hooked(disturbed, prompt, path))
            torch.testing.assert_close(found.at(site, number), wanted, rtol=1e-9, atol=1e-9)
            beyond = found[site][number].clone()
            beyond[tuple(slice(size) for size in wanted.shape)] = 0
            assert not beyond.any()
        assert found[site].shape[1] == max(found.lengths(site))


def test_tokens_lengths_and_prompts_stand_beside_them(disturbed: Checkpoint):
    found = steer.activations(disturbed, PROMPTS, ["dec-cross-1.4.k", "dec-cross-1.4.q"])
    assert found.prompts == tuple(PROMPTS)
    assert found.answers[0] == ("red", "blue")
    assert found.tokens("dec-cross-1.4.k", 2) == ("A", "|", "A", "=", "red", "EOS")
    assert found.tokens("dec-cross-1.4.q", 0) == ("SOS", "red", "blue")
    assert found.lengths("dec-cross-1.4.k") == tuple(len(prompt.split()) + 1 for prompt in PROMPTS)


def test_another_answer_can_be_fed_in(disturbed: Checkpoint):
    one, other = (
        steer.activations(disturbed, PROMPTS[:1], "dec-cross-1.4.q", answers=answers)
        for answers in (None, ["blue blue"])
    )
    assert other.tokens("dec-cross-1.4.q", 0) == ("SOS", "blue", "blue")
    assert torch.equal(one["dec-cross-1.4.q"][:, 0], other["dec-cross-1.4.q"][:, 0])
    assert not torch.allclose(one["dec-cross-1.4.q"][:, 1], other["dec-cross-1.4.q"][:, 1])


def test_every_fault_is_said(disturbed: Checkpoint):
    with pytest.raises(steer.SteerError) as raised:
        steer.activations(disturbed, ["A | A = red", "A | A = rde", "nothing"], "logits")
    assert [fault.split(":")[0] for fault in raised.value.faults] == ["prompt 1", "prompt 2"]
    with pytest.raises(steer.SteerError, match=r"sites: .*dec-cross-1\.9"):
        steer.activations(disturbed, PROMPTS, ["dec-cross-1.9.k"])
    with pytest.raises(steer.SteerError, match="give at least one"):
        steer.activations(disturbed, [], ["logits"])
    with pytest.raises(KeyError, match="there are"):
        steer.activations(disturbed, PROMPTS[:1], "logits")["dec-cross-1.4.k"]


def test_a_recipes_tensors_say_the_same_also_from_disk(disturbed: Checkpoint, tmp_path: Path):
    recipe = steer.build_recipe(
        kind="ablate-set", nodes=["enc-self-0.3"], episodes={"count": 6}, tensors=["dec-cross-1.4.pattern"],
        measures=[{"name": "exact-match"}],
    )  # fmt: skip
    result = steer.run(recipe, disturbed)
    examples = disturbed.task.examples(recipe.recipe.episodes, 0)
    wanted = steer.activations(disturbed, examples, "dec-cross-1.4.pattern")
    for made in (result, steer.read_result(result.save(tmp_path))):
        clean = made.activations("nothing ablated")
        assert clean.prompts == wanted.prompts
        assert clean.tokens("dec-cross-1.4.pattern", 3) == wanted.tokens("dec-cross-1.4.pattern", 3)
        torch.testing.assert_close(clean["dec-cross-1.4.pattern"], wanted["dec-cross-1.4.pattern"])
    with pytest.raises(steer.SteerError, match="did you mean nothing ablated"):
        result.activations("nothing ablate")


def test_a_site_is_found_by_the_name_that_it_was_asked_for():
    found = steer.activations("seed1", PROMPTS[:2], ["$output.k", "dec-cross-0.*.z"])
    (site,) = (name for name in found if name.endswith(".k"))
    assert site != "$output.k"
    assert torch.equal(found["$output.k"], found[site])
    assert torch.equal(found.at("$output.k", 1), found.at(site, 1))
    assert found.tokens("$output.k", 1) == found.tokens(site, 1)
    with pytest.raises(KeyError, match="no activations of"):
        found["dec-cross-0.*.z"]  # several
