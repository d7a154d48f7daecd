"""Training by hand: what a step sees, what it is held to, how fast it goes, and what the log says of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY
from tokens import COLOUR_IDS, MATERIAL, PAD_ID, Protocol, Stage, answers, epoch_batches

from steer.base.dice import Dice
from steer.base.errors import CheckpointError
from steer.models.batch import Batch
from steer.models.checkpoint import load_checkpoint
from steer.models.plain.dropout import dropouts
from steer.models.plain.transformer import Transformer
from steer.models.training.loop import Event, Trainer
from steer.models.training.protocol import Optimiser
from steer.tasks.compositional.curriculum import visit
from steer.tasks.compositional.grammar import Grammar
from steer.tasks.compositional.splits import make_splits


def protocol(*stages: Stage, dropout: float = 0.0, **more: object) -> Protocol:
    sizes = {**vars(TINY), "dropout": dropout}
    return Protocol.model_validate({"model": sizes, "stages": list(stages), **more})


def one_batch(**more: object) -> Stage:
    return Stage(**{"epochs": 1, "episodes": 12, "batch": 12} | more)


def loss_by_hand(model: Transformer, batch: Batch, output: np.ndarray) -> tuple[float, int]:
    """Mean loss over real tokens, and how many sequences are right, token by token."""
    with torch.no_grad():
        logits = model(torch.from_numpy(batch.prompt), torch.from_numpy(output)).double()
    losses, right = [], 0
    for row, target in enumerate(batch.target.tolist()):
        real = [(place, token) for place, token in enumerate(target) if token != PAD_ID]
        losses += [-float(logits[row, place].log_softmax(-1)[token]) for place, token in real]
        right += all(int(logits[row, place].argmax()) == token for place, token in real)
    return float(np.mean(losses)), right


def seen_by(trainer: Trainer) -> list[tuple[np.ndarray, np.ndarray]]:
    """What the model is given at each training step."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def look(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        if module.training:
            seen.append((given[0].numpy().copy(), given[1].numpy().copy()))

    trainer.model.register_forward_pre_hook(look)
    return seen


# What a step sees


def test_the_log_tells_the_loss_of_the_weights_before_the_step():
    stage = one_batch()
    trainer = Trainer(protocol(stage), seed=3)
    (batch,) = epoch_batches(stage, MATERIAL, 3, 0)
    loss, right = loss_by_hand(trainer.model.eval(), batch, batch.output)
    entry = trainer.run_epoch(stage, lambda event: None)
    assert entry["loss"] == pytest.approx(loss, abs=1e-5)
    assert entry["train_exact"] == round(right / 12, 4)
    assert (entry["steps"], entry["presentations"], entry["epoch"]) == (1, 12, 1)


def test_an_epochs_loss_is_the_mean_of_its_steps():
    stage = one_batch(episodes=36)
    trainer = Trainer(protocol(stage), seed=3)
    events: list[Event] = []
    entry = trainer.run_epoch(stage, events.append)
    assert [event.step for event in events] == [1, 2, 3]
    first = events[0].loss
    second = 2 * events[1].loss - first
    third = 3 * events[2].loss - first - second
    assert entry["loss"] == pytest.approx((first + second + third) / 3, abs=1e-5)
    assert events[-1].loss == pytest.approx(entry["loss"], abs=1e-5)


def test_noise_is_in_what_the_decoder_reads_and_nowhere_else():
    stage = one_batch(noise=0.8)
    trainer = Trainer(protocol(stage), seed=3)
    (batch,) = epoch_batches(stage, MATERIAL, 3, 0)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    seen = seen_by(trainer)
    entry = trainer.run_epoch(stage, lambda event: None)
    ((prompt, output),) = seen
    assert (prompt == batch.prompt).all()
    colours = np.isin(batch.output, COLOUR_IDS)
    assert (output[~colours] == batch.output[~colours]).all()
    assert 0.4 < (output[colours] != batch.output[colours]).mean() < 0.95
    trainer.model.load_state_dict(before)
    loss, _ = loss_by_hand(trainer.model.eval(), batch, output)  # held to the right answer all the same
    assert entry["loss"] == pytest.approx(loss, abs=1e-5)


def test_noise_differs_from_step_to_step():
    stage = one_batch(noise=0.5, epochs=2)
    trainer = Trainer(protocol(stage), seed=3)
    batch = epoch_batches(stage, MATERIAL, 3, 0)[0]
    seen = seen_by(trainer)
    for _ in range(2):
        trainer.step(batch, 1e-4, noise=0.5)
    assert (seen[0][1] != seen[1][1]).any()


def test_dropout_is_the_stages_own_or_the_models():
    trainer = Trainer(protocol(one_batch(), dropout=0.25), seed=0)
    for stage, rate in ((Stage(dropout=0.5), 0.5), (Stage(), 0.25), (Stage(dropout=0.0), 0.0)):
        trainer.enter(stage)
        assert {module.kept for module in dropouts(trainer.model)} == {round(256 * (1 - rate))}


def test_dropout_zeroes_its_share_and_keeps_the_mean():
    trainer = Trainer(protocol(one_batch(), dropout=0.25), seed=0)
    module = dropouts(trainer.model.train())[0]
    out = module(torch.ones(200_000))
    assert float((out == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)


# How fast


def rates_of(stage: Stage, **more: object) -> list[float]:
    trainer = Trainer(protocol(stage, **more), seed=0)
    found: list[float] = []
    step = trainer.optimiser.step

    def look() -> None:
        found.append(trainer.optimiser.param_groups[0]["lr"])
        step()

    trainer.optimiser.step = look  # type: ignore[method-assign]
    for _ in range(stage.epochs):
        trainer.run_epoch(stage, lambda event: None)
    return found


def test_the_learning_rate_goes_down_a_straight_line_after_its_warm_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Trainer, "validate", lambda self: 0.0)
    stage = Stage(epochs=4, episodes=30, batch=10, lr=(1e-2, 2e-3), warmup=1.5)
    line = [1e-2 - (1e-2 - 2e-3) * step / 12 for step in range(12)]
    warm = [min(1.0, (step + 1) / 4.5) for step in range(12)]
    assert rates_of(stage) == pytest.approx([a * b for a, b in zip(line, warm, strict=True)])


def test_every_stage_warms_up_from_its_own_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Trainer, "validate", lambda self: 0.0)
    stage = Stage(epochs=1, episodes=40, batch=10, lr=(1e-3, 1e-3), warmup=0.5)
    trainer = Trainer(protocol(stage, stage), seed=0)
    rates: list[float] = []
    trainer.run(tmp_path, lambda event: rates.append(trainer.optimiser.param_groups[0]["lr"]))
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3, 1e-3] * 2)


def test_without_warm_up_the_first_step_has_the_first_rate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Trainer, "validate", lambda self: 0.0)
    found = rates_of(Stage(epochs=1, episodes=20, batch=5, lr=(1e-3, 1e-4)))
    assert found[0] == pytest.approx(1e-3)
    assert all(later < earlier for earlier, later in pairwise(found))


@pytest.mark.parametrize("clip", [None, 1e-3])
def test_gradients_are_clipped_when_the_protocol_says_so(clip: float | None):
    stage = one_batch()
    trainer = Trainer(protocol(stage, optimiser=Optimiser(clip=clip)), seed=1)
    (batch,) = epoch_batches(stage, MATERIAL, 1, 0)
    trainer.enter(stage)
    trainer.step(batch, 1e-4)
    norm = torch.sqrt(sum((p.grad**2).sum() for p in trainer.model.parameters() if p.grad is not None))
    assert float(norm) == pytest.approx(1e-3, rel=1e-3) if clip else float(norm) > 0.05


def test_the_optimiser_is_the_protocols():
    trainer = Trainer(protocol(one_batch(), optimiser=Optimiser(betas=(0.8, 0.7), weight_decay=0.03)), seed=1)
    told = trainer.optimiser.param_groups[0]
    assert (tuple(told["betas"]), told["weight_decay"]) == ((0.8, 0.7), 0.03)
    before = trainer.model.unembed.weight.detach().clone()
    (batch,) = epoch_batches(one_batch(), MATERIAL, 1, 0)
    trainer.step(batch, 1e-2)
    # The first step of Adam is the rate times the gradient's sign; decay takes the rate's share of the weight.
    grad = trainer.model.unembed.weight.grad
    expected = before * (1 - 1e-2 * 0.03) - 1e-2 * grad / (grad.abs() + 1e-8)
    torch.testing.assert_close(trainer.model.unembed.weight.detach(), expected, rtol=0, atol=1e-6)


def test_a_model_of_other_episodes_is_no_beginning():
    """What was held out from it may be among those that this protocol trains on."""
    start = load_checkpoint("tiny")
    start.record.protocol["data_seed"] = 1
    with pytest.raises(CheckpointError, match="other episodes"):
        Trainer(Protocol(model=start.record.config), seed=0).begin_from(start)


# When it ends, and what is left


def learned(*stages: Stage) -> Trainer:
    """A trainer that begins with a model that already answers some questions."""
    start = load_checkpoint("tiny")
    sizes = vars(start.record.config)
    trainer = Trainer(Protocol.model_validate({"model": sizes, "stages": list(stages)}), seed=1)
    trainer.begin_from(start)
    return trainer


SLOW = (1e-6, 1e-6)  # far too slow to change an answer


def test_validation_is_the_saved_models_own_score(tmp_path: Path):
    """With half of everything dropped while training: the number in the log is that of the model without dropout."""
    trainer = learned(one_batch(dropout=0.5, lr=SLOW))
    trainer.run(tmp_path)
    saved = load_checkpoint(str(tmp_path))
    shown = make_splits(0).validation
    right = np.mean([given == e.answer for given, e in zip(answers(saved.transformer, shown), shown, strict=True)])
    assert 0.05 < right < 0.98
    assert saved.record.history[-1]["validation_exact"] == round(float(right), 4)


def test_training_goes_on_with_dropout_after_a_validation(tmp_path: Path):
    trainer = learned(one_batch(dropout=0.5, lr=SLOW, epochs=2))
    modes: list[bool] = []
    trainer.run(tmp_path, lambda event: modes.append(trainer.model.training))
    assert modes == [True, True]


LOOK_UP = Grammar((2, 3), (1, 1), (0, 0))  # what the small model was trained on: nearly always right


@pytest.mark.parametrize(("until", "epochs"), [(None, [2, 1]), (1.0, [2, 1]), (0.5, [1, 1])])
def test_a_stage_ends_when_its_training_exact_match_is_reached(tmp_path: Path, until: float | None, epochs: list[int]):
    first = one_batch(name="first", epochs=2, episodes=60, batch=60, lr=SLOW, until=until, grammars=(LOOK_UP,))
    trainer = learned(first, one_batch(name="second", lr=SLOW))
    before = len(trainer.history)
    trainer.run(tmp_path)
    log = trainer.history[before:]
    assert [sum(entry["stage"] == name for entry in log) for name in ("first", "second")] == epochs
    assert 0.5 < log[0]["train_exact"] < 1
    assert log[0]["validation_exact"] < 0.5
    assert [entry["epoch"] for entry in log] == [n + 1 for some in epochs for n in range(some)]


# What is shown


def test_a_model_that_is_trained_on_is_shown_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the same seed and protocol: its epochs are counted on, and with them what is drawn."""
    monkeypatch.setattr(Trainer, "validate", lambda self: 0.0)
    made = protocol(one_batch(episodes=24, epochs=2))
    first, second = Trainer(made, seed=5), Trainer(made, seed=5)
    before = seen_by(first)
    first.run(tmp_path)
    second.begin_from(load_checkpoint(str(tmp_path)))
    after = seen_by(second)
    second.run(tmp_path / "second")
    one, two = ({tuple(row) for prompt, _ in seen for row in prompt.tolist()} for seen in (before, after))
    assert len(one) == len(two) == 48
    assert not one & two


def test_relabelling_and_reshuffling_keep_the_task():
    drawn = visit(Stage(episodes=60), MATERIAL, Dice(4))
    assert drawn == visit(Stage(episodes=60), MATERIAL, Dice(4))
    shuffled = visit(Stage(reshuffle=True), MATERIAL, Dice(4))
    assert all(set(a.support) == set(b.support) for a, b in zip(MATERIAL.train, shuffled, strict=True))
    assert all(a.question == b.question for a, b in zip(MATERIAL.train, shuffled, strict=True))
    assert np.mean([a.support != b.support for a, b in zip(MATERIAL.train, shuffled, strict=True)]) > 0.9
    renamed = visit(Stage(relabel=True), MATERIAL, Dice(4))
    kinds = [[type(item) for item in episode.support] for episode in renamed]
    assert kinds == [[type(item) for item in episode.support] for episode in MATERIAL.train]
    assert np.mean([a == b for a, b in zip(MATERIAL.train, renamed, strict=True)]) < 0.01


def test_fresh_episodes_come_from_the_stages_grammars_and_differ_by_epoch_and_seed():
    stage = Stage(episodes=50, grammars=(Grammar((2, 2), (1, 1), (1, 1), (1,)), Grammar((4, 4), (1, 1), (1, 1), (1,))))
    shown = visit(stage, MATERIAL, Dice(4))
    sizes = [len(episode.primitives) for episode in shown]
    assert set(sizes) == {2, 4}
    assert 10 < sizes.count(2) < 40
    prompts = [
        {tuple(row) for batch in epoch_batches(stage, MATERIAL, seed, epoch) for row in batch.prompt.tolist()}
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert all(one != other for one, other in ((prompts[0], prompts[1]), (prompts[0], prompts[2])))
