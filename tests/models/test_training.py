"""The trainer: exact resume, honest batches, and nothing held out ever shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokens import COLOUR_IDS, MATERIAL, PAD_ID, SOS_ID, Protocol, Stage, decode, epoch_batches

from steer.base.dice import Dice
from steer.base.errors import CheckpointError
from steer.models.checkpoint import load_checkpoint
from steer.models.training.loop import LOG, STATE, Event, Trainer, learning_rate, mlps, noisy
from steer.tasks.compositional.curriculum import Material, ask, material, unseen_calls, visit, write
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.grammar import Grammar, draw, relabel
from steer.tasks.compositional.lesson import Questions, Writing
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.slices import make_slices
from steer.tasks.compositional.splits import conjunction, make_splits


class Killed(Exception):
    pass


def killer(after: int):
    """Ends training in the middle of an epoch, as a signal would."""
    seen = 0

    def tell(event: Event) -> None:
        nonlocal seen
        seen += 1
        if seen == after:
            raise Killed

    return tell


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(str(folder)).transformer.state_dict()


@pytest.mark.parametrize("after", [1, 5, 9, 13])
def test_a_killed_run_ends_with_the_same_weights(tiny_protocol: Protocol, tmp_path: Path, after: int):
    Trainer(tiny_protocol, seed=5).run(tmp_path / "whole")
    with pytest.raises(Killed):
        Trainer(tiny_protocol, seed=5).run(tmp_path / "cut", killer(after))
    again = Trainer(tiny_protocol, seed=5)
    if (tmp_path / "cut" / STATE).exists():
        again.resume(tmp_path / "cut")
    again.run(tmp_path / "cut")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    logs = [[json.loads(line) for line in (tmp_path / f / LOG).read_text().splitlines()] for f in ("whole", "cut")]
    for entry in (*logs[0], *logs[1]):
        del entry["seconds"]
    assert logs[0] == logs[1]


def test_a_curriculum_of_silent_mlps_and_noise_resumes_too(tiny_protocol: Protocol, tmp_path: Path):
    first, second = tiny_protocol.stages
    stages = (first.model_copy(update={"silent": "all", "noise": 0.3}), second.model_copy(update={"silent": "decoder"}))
    protocol = tiny_protocol.model_copy(update={"stages": (*stages, second)})
    Trainer(protocol, seed=5).run(tmp_path / "whole")
    with pytest.raises(Killed):
        Trainer(protocol, seed=5).run(tmp_path / "cut", killer(10))
    again = Trainer(protocol, seed=5)
    again.resume(tmp_path / "cut")
    assert (again.model.dec[0]["mlp"].W_out.weight == 0).all()  # silent so far
    again.run(tmp_path / "cut")
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(whole[name], cut[name]) for name in whole)
    assert (whole["dec.0.mlp.W_out.weight"] != 0).any()


def test_silent_mlps_write_nothing(tiny_protocol: Protocol):
    trainer = Trainer(tiny_protocol, seed=0)
    trainer.enter(Stage(silent="decoder"))
    assert [mlp.silent for mlp in mlps(trainer.model, "all")] == [False, True]
    trainer.enter(Stage())
    assert not any(mlp.silent for mlp in mlps(trainer.model, "all"))


def test_noise_replaces_colours_and_nothing_else():
    output = np.array([[SOS_ID, *COLOUR_IDS, PAD_ID]] * 500)
    changed = noisy(output, 0.5, (1, 2), [*COLOUR_IDS])
    assert (changed[:, 0] == SOS_ID).all()
    assert (changed[:, -1] == PAD_ID).all()
    share = (changed[:, 1:-1] != output[:, 1:-1]).mean()
    assert abs(share - 0.5 * 5 / 6) < 0.03
    assert np.isin(changed[:, 1:-1], COLOUR_IDS).all()
    assert (noisy(output, 0.5, (1, 2), [*COLOUR_IDS]) == changed).all()
    assert noisy(output, 0.0, (1, 2), [*COLOUR_IDS]) is output


def test_writing_changes_the_prompt_and_never_the_answer():
    episode = Episode.parse("C S D | A S B = blue red | D = pink | B = blue | C = green | A = red")
    episode = replace(episode, answer=solve(episode).answer)
    ways = {
        "C S D | D = pink | B = blue | C = green | A = red | A S B = blue red EOS": Writing(order="last"),
        "C S D | A = red | B = blue | D = pink | C = green | A S B = blue red EOS": Writing(order="aligned"),
        "C S D | A S B = B A | D = pink | B = blue | C = green | A = red EOS": Writing(spelled=1),
        "C S D | A S B = EOS SOS | D = pink | B = blue | C = green | A = red EOS": Writing(marked=1),
    }
    for text, writing in ways.items():
        shown = write(episode, writing, Dice(0))
        assert " ".join(shown.prompt) == text
        assert shown.answer == episode.answer
    assert write(episode, Writing(), Dice(0)) is episode


@given(st.integers(0, 300))
def test_a_disjoint_question_shares_no_argument_where_it_can(seed: int):
    episode = draw(Grammar((4, 4), (1, 1), (1, 1), (2,), disjoint=True), Dice(seed))
    assert not set(episode.question.arguments) & set(episode.demonstrations[0].call.arguments)
    assert solve(episode).answer == episode.answer


def test_another_seed_gives_other_weights(tiny_protocol: Protocol, tmp_path: Path):
    for seed in (1, 2):
        Trainer(tiny_protocol, seed).run(tmp_path / str(seed))
    assert not torch.equal(weights(tmp_path / "1")["unembed.weight"], weights(tmp_path / "2")["unembed.weight"])


def test_a_run_of_another_protocol_is_not_resumed(tiny_protocol: Protocol, tmp_path: Path):
    Trainer(tiny_protocol, seed=1).run(tmp_path)
    with pytest.raises(CheckpointError, match="another protocol or seed"):
        Trainer(tiny_protocol, seed=2).resume(tmp_path)
    (tmp_path / STATE).write_bytes(b"broken")
    with pytest.raises(CheckpointError, match="cannot be resumed"):
        Trainer(tiny_protocol, seed=1).resume(tmp_path)


def test_it_learns(tmp_path: Path):
    """Primitive look-up with two primitives on a small model: far above chance within seconds."""
    stage = Stage(epochs=4, episodes=2_000, batch=50, lr=(3e-3, 1e-3), grammars=(Grammar((2, 2), (1, 1), (0, 0)),))
    small = {"d_model": 32, "heads": 4, "d_head": 8, "d_ff": 64, "dropout": 0.0}
    trainer = Trainer(Protocol.model_validate({"model": small, "stages": [stage]}), seed=0)
    losses = [trainer.run_epoch(stage, lambda event: None)["loss"] for _ in range(4)]
    assert losses[-1] < 0.6 * losses[0]


STAGES = [
    Stage(),
    Stage(relabel=True),
    Stage(episodes=3_000),
    Stage(episodes=3_000, relabel=True, reshuffle=True),
    Stage(episodes=3_000, grammars=(Grammar((2, 3), (1, 1), (1, 2)),)),
]


@pytest.mark.parametrize("stage", STAGES)
def test_nothing_held_out_is_ever_shown(stage: Stage):
    shown = {conjunction(episode) for episode in visit(stage, MATERIAL, Dice(1))}
    assert len(shown) > 2_000
    assert not shown & MATERIAL.held_out


@pytest.mark.parametrize("stage", [Stage(relabel=True), Stage(episodes=50)])
def test_a_held_out_draw_is_drawn_again(stage: Stage):
    """The check above might pass by luck; here half of all that would be drawn is held out."""
    first = [conjunction(episode) for episode in visit(stage, MATERIAL, Dice(1))]
    small = Material(MATERIAL.train, frozenset(first[::2]))
    shown = {conjunction(episode) for episode in visit(stage, small, Dice(1))}
    assert len(shown) > len(first) // 3
    assert not shown & small.held_out


@given(st.integers(0, 2_000))
def test_every_question_asked_has_its_answer(number: int):
    episode = MATERIAL.train[number]
    asked = ask(episode, Questions(compositions=5, primitives=9, copies=9), Dice(number))
    assert asked[0] == episode
    assert all(solve(one).answer == one.answer for one in asked)
    assert len({one.question for one in asked}) == len(asked)
    kinds = [one.question in {shown.call for shown in episode.demonstrations} for one in asked]
    assert sum(kinds) == len(episode.demonstrations)
    assert sum(one.question.function is None for one in asked) == len(episode.primitives)
    assert episode.question not in unseen_calls(episode)


def test_an_epoch_is_every_episode_once():
    stage = Stage(relabel=True, reshuffle=True)
    batches = epoch_batches(stage, MATERIAL, 7, 3)
    assert sum(map(len, batches)) == len(MATERIAL.train)
    assert max(map(len, batches)) == stage.batch
    again = epoch_batches(stage, MATERIAL, 7, 3)
    assert all((a.prompt == b.prompt).all() for a, b in zip(batches, again, strict=True))
    other = epoch_batches(stage, MATERIAL, 7, 4)
    assert any(
        a.prompt.shape != b.prompt.shape or (a.prompt != b.prompt).any() for a, b in zip(batches, other, strict=True)
    )


def test_buckets_save_padding():
    def padding(batches) -> float:
        return sum((b.prompt == PAD_ID).sum() for b in batches) / sum(b.prompt.size for b in batches)

    assert padding(epoch_batches(Stage(), MATERIAL, 0, 0)) < 0.05


def test_what_is_collated_is_what_was_drawn():
    stage = Stage(episodes=30)
    shown = {str(episode): episode.answer for episode in visit(stage, MATERIAL, Dice(9, "epoch", 0))}
    for batch in epoch_batches(stage, MATERIAL, 9, 0):
        for prompt, output, target in zip(batch.prompt, batch.output, batch.target, strict=True):
            text = " ".join(decode([i for i in prompt.tolist() if i != PAD_ID])[:-1])
            answer = decode([i for i in target.tolist() if i != PAD_ID])
            assert shown[text] == answer[:-1]
            assert answer[-1] == "EOS"
            assert decode(output.tolist())[0] == "SOS"
            assert output.tolist()[1 : len(answer)] == target.tolist()[: len(answer) - 1]


def test_relabelling_moves_every_name_sometimes():
    names = {relabel(MATERIAL.train[0], Dice(seed)).question.tokens for seed in range(20)}
    assert len(names) > 10


def test_the_learning_rate_warms_up_and_decays():
    stage = Stage(epochs=50, warmup=1, lr=(1e-3, 5e-5))
    assert learning_rate(stage, 0.0, 0.5) == pytest.approx(5e-4)
    assert learning_rate(stage, 0.5, 25) == pytest.approx((1e-3 + 5e-5) / 2)
    assert learning_rate(stage, 1.0, 50) == pytest.approx(5e-5)


def test_silent_output_heads_write_nothing_until_they_are_let_in(tiny_protocol: Protocol, tmp_path: Path):
    alone = tiny_protocol.stages[0].model_copy(update={"output_heads": 1})
    first = tiny_protocol.model_copy(update={"stages": (alone,)})
    trainer = Trainer(first, 0)
    trainer.run(tmp_path / "first")
    size = first.model.d_head
    weight = trainer.model.dec[-1]["cross_attn"].W_O.weight
    assert weight[:, :size].abs().max() > 0
    assert weight[:, size:].abs().max() == 0
    both = Trainer(tiny_protocol.model_copy(update={"stages": (alone, tiny_protocol.stages[1])}), 0)
    both.run(tmp_path / "both")
    assert both.model.dec[-1]["cross_attn"].W_O.weight[:, size:].abs().max() > 0


def test_heads_and_mlps_that_fall_silent_later_start_anew(tiny_protocol: Protocol, tmp_path: Path):
    quiet = tiny_protocol.stages[1].model_copy(update={"output_heads": 1, "silent": "all"})
    trainer = Trainer(tiny_protocol.model_copy(update={"stages": (tiny_protocol.stages[0], quiet)}), 0)
    trainer.run(tmp_path)
    assert trainer.model.dec[-1]["cross_attn"].W_O.weight[:, tiny_protocol.model.d_head :].abs().max() == 0
    # So that the saved model, in which no MLP is silent, is the one that was measured.
    assert all(p.abs().max() == 0 for mlp in mlps(trainer.model, "all") for p in mlp.W_out.parameters())


def test_training_begins_from_a_checkpoint_and_says_so(tiny_protocol: Protocol, tmp_path: Path):
    Trainer(tiny_protocol, 3).run(tmp_path / "first")
    start = load_checkpoint(str(tmp_path / "first"))
    trainer = Trainer(tiny_protocol, 3)
    trainer.begin_from(start)
    for name, tensor in start.transformer.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor)
    trainer.run(tmp_path / "second")
    record = load_checkpoint(str(tmp_path / "second")).record
    assert record.protocol["began_from"]["weights_sha256"] == start.record.weights_sha256
    assert record.history[: len(start.record.history)] == start.record.history
    presentations = [entry["presentations"] for entry in record.history]
    assert presentations == sorted(set(presentations))  # counted on
    resumed = Trainer(tiny_protocol, 3)
    resumed.resume(tmp_path / "second")
    assert resumed.record().protocol == trainer.record().protocol


def test_a_checkpoint_of_other_sizes_is_no_beginning(tiny_protocol: Protocol):
    with pytest.raises(CheckpointError, match="another model: encoder_layers 2"):
        Trainer(tiny_protocol, 0).begin_from(load_checkpoint("seed1"))


def test_training_keeps_out_of_the_strict_questions_too():
    """A grammar that can draw little: half of what it draws is put among the strict questions, and never shown."""
    stage = Stage(name="s", epochs=1, episodes=60, batch=20, grammars=(Grammar((2, 2), (1, 1), (0, 0)),))
    used = material(0)  # what every training uses
    strict = {conjunction(e) for part in make_slices(0).values() for e in part}
    assert strict <= used.held_out
    assert make_splits(0).held_out <= used.held_out
    drawn = {conjunction(e) for e in visit(stage, used, Dice(0))}
    kept = replace(used, held_out=used.held_out | set(sorted(drawn, key=str)[::2]))
    assert not {conjunction(e) for e in visit(stage, kept, Dice(0))} & kept.held_out
