"""Questions that choose, who writes the choice, and what is kept of each kind of question: each counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from handmade import checkpoint
from tokens import ID, ROLES, TASK, collate

from steer.anatomy.nodes import Node
from steer.discover.choosing import choices
from steer.discover.lab import Lab
from steer.discover.search import heads_in_role
from steer.discover.writers import chosen, writing_heads
from steer.models.plain.transformer import Transformer
from steer.results.circuit import Edge, Member
from steer.results.evidence import Estimate
from steer.results.tally import Tally
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.evaluation import rivals
from steer.tasks.compositional.splits import make_splits

ONE = replace(Episode.parse("A S | A = red | B = blue | B S = blue blue"), answer=("red", "red"))
TWO = replace(
    Episode.parse("B S A | A = red | B = blue | C = pink | A S C = pink red pink"), answer=("red", "blue", "red")
)


@pytest.fixture
def lab(paper_model: Transformer) -> Lab:
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in paper_model.named_parameters():
            if "ln" in name or name.endswith("bias"):
                weight.add_(0.3 * torch.randn_like(weight))
    return Lab(checkpoint(paper_model.double().requires_grad_(False)), make_splits(0).test[:12])


def test_the_rival_is_the_other_argument():
    assert rivals(TWO) == ("blue", "red", "blue")
    assert rivals(ONE) == ONE.answer
    assert choices(TASK, [ONE, TWO]) == [TWO]
    assert choices(TASK, [ONE]) == [ONE]


def test_what_is_kept_is_counted_for_each_number_of_arguments(lab: Lab):
    """The clean model answers one kind better than the other: each kind's share is of its own clean accuracy."""
    values, clean = Tally(12, 1), Tally(12, 1)
    easy = np.array([[len(episode.question.arguments) == 1] for episode in lab.episodes])
    right = np.random.default_rng(0).random((12, 2))
    values.put(list(range(12)), (right[:, :1] < 0.5) * 1.0, np.ones((12, 1)))
    clean.put(list(range(12)), (easy | (right[:, 1:] < 0.5)) * 1.0, np.ones((12, 1)))
    assert 0 < clean.values[~easy].mean() < clean.values[easy].mean() == 1
    found = lab.kept(values, clean)
    for name, wanted in (("one argument", (1,)), ("two arguments", (2,)), (None, (1, 2))):
        rows = [n for n, e in enumerate(lab.episodes) if len(e.question.arguments) in wanted]
        told = found.groups[name] if name else found
        assert told.value == pytest.approx(values.values[rows].sum() / clean.values[rows].sum(), abs=1e-4)
        assert told.low <= told.value <= told.high


def test_a_share_that_is_the_same_in_every_episode_is_certain(lab: Lab):
    """However much the clean accuracy depends on which episodes are drawn: it is drawn with them."""
    clean, half = Tally(len(lab.episodes), 1), Tally(len(lab.episodes), 1)
    clean.put(list(range(12)), np.random.default_rng(1).random((12, 1)) + 0.1, np.ones((12, 1)))
    half.put(list(range(12)), 0.5 * clean.values, np.ones((12, 1)))
    told = lab.kept(half, clean)
    assert (told.low, told.value, told.high) == (0.5, 0.5, 0.5)


def test_a_head_writes_the_choice_as_its_own_algebra_says(lab: Lab):
    """Right colour's logit minus the other argument's, the final LayerNorm at its clean scale: episode by episode."""
    model, node = lab.model.module, Node("dec-cross", 1, 2)
    tally = lab.clean(lab.choice(node))
    seen: dict[str, torch.Tensor] = {}
    model.get_submodule("dec.1.cross_attn.z").register_forward_hook(lambda m, i, o: seen.update(z=o))
    model.ln_dec.register_forward_pre_hook(lambda m, i: seen.update(stream=i[0]))
    block = model.dec[1]["cross_attn"]
    for row, episode in enumerate(lab.episodes):
        batch = collate([episode])
        model(torch.from_numpy(batch.prompt), torch.from_numpy(batch.output))
        size = model.config.d_head
        write = seen["z"][0, :, 2] @ block.W_O.weight[:, 2 * size : 3 * size].T
        scale = seen["stream"][0].var(-1, unbiased=False).add(model.ln_dec.eps).sqrt()
        written = (
            (write - write.mean(-1, keepdim=True)) / scale[:, None] * model.ln_dec.weight
        ) @ model.unembed.weight.T
        steps = [
            (n, right, other) for n, (right, other) in enumerate(zip(episode.answer, TASK.rivals(episode), strict=True))
        ]
        wanted = [float(written[n, ID[a]] - written[n, ID[b]]) if a != b else 0.0 for n, a, b in steps]
        assert tally.values[row, : len(wanted)] == pytest.approx(wanted, abs=1e-8)
        assert tally.counts[row].sum() == (len(wanted) if len(episode.question.arguments) == 2 else 0)


def test_what_is_said_is_the_likeliest_token(lab: Lab):
    told = chosen(lab, [Node("dec-cross", 1, 2)])
    right, other, steps = 0, 0, 0
    for episode in choices(TASK, lab.episodes):
        batch = collate([episode])
        said = (
            lab.checkpoint.transformer(torch.from_numpy(batch.prompt), torch.from_numpy(batch.output))[0]
            .argmax(-1)
            .tolist()
        )
        for token, good, bad in zip(said, episode.answer, TASK.rivals(episode), strict=False):
            right, other, steps = right + (token == ID[good]), other + (token == ID[bad]), steps + 1
    assert told.right.clean.value == pytest.approx(right / steps, abs=1e-4)
    assert told.rival.clean.value == pytest.approx(other / steps, abs=1e-4)
    assert told.without == ("dec-cross-1.2",)


def test_heads_that_write_come_by_how_much():
    one, two, three = (Node("dec-cross", 0, head) for head in range(3))
    shares = {
        one: Estimate(value=0.06, low=0.04, high=0.1),
        two: Estimate(value=0.1, low=0.06, high=0.2),
        three: Estimate(value=0.3, low=0.2, high=0.4),
    }
    assert writing_heads([one, two, three], shares, 0.1) == [three, two]
    assert writing_heads([one, two], {}, 0.1) == []


def test_a_head_that_writes_leads_its_role():
    score = Estimate(value=0.9, low=0.9, high=0.9)
    members = [Member(node=f"dec-cross-0.{n}", block="dec-cross-0", role="rhs-scanner", score=score) for n in range(3)]
    edge = Edge(source="dec-cross-0.1", target="dec-cross-1.0.q", sufficiency=score, necessity=score, measured_at="x")
    assert heads_in_role(ROLES, members, [edge], {"dec-cross-0.2": 0.1}) == {
        "rhs-scanner": ("dec-cross-0.2", "dec-cross-0.1", "dec-cross-0.0")
    }
