"""A small random model (biases, gains and depths of their own) and a few episodes, asked through the public door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import by_hand
import pytest
import torch
from by_hand import Condition, Trial
from by_hand_net import Net, ids
from torch import Tensor

import steer.tasks.compositional.selection
import steer.tasks.compositional.task
from steer.engine.engine import Engine
from steer.engine.session import Session
from steer.experiments.api import build_recipe, run
from steer.models.checkpoint import Checkpoint, Record
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.models.protocol import Batch
from steer.plan.plan import Run
from steer.results.circuit import Circuit, Described
from steer.results.result import Result
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS

CONFIG = ModelConfig(
    encoder_layers=3, decoder_layers=2, heads=3, d_model=16, d_head=5, d_ff=12, position_scale=1.7
)  # fmt: skip
DATA_SEED = 7  # the checkpoint's own, by which its episodes are found
BATCH = 3  # so that a few episodes are several batches, each of them padded
ROLES = {"question-broadcast": ("enc-self-0.1", "enc-self-1.2"), "output": ("dec-cross-1.0",)}


def random_weights(model: Transformer, seed: int = 0) -> Transformer:
    """Every tensor random: no bias is zero, no gain is one, and attention is far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if ".ln" in f".{name}":
            noise = 1.0 * name.endswith("weight") + 0.4 * noise
        elif parameter.ndim == 2 and "table" not in name:
            noise = 1.4 * noise / parameter.shape[1] ** 0.5
        parameter.data = noise.to(parameter.dtype)
    return model.requires_grad_(False).eval()


def checkpoint(seed: int = 0, config: ModelConfig = CONFIG) -> Checkpoint:
    model = random_weights(Transformer(config).double(), seed)
    record = Record(config=config, seed=0, protocol={"data_seed": DATA_SEED}, history=[])
    return Checkpoint(model, record, "small", Circuit(checkpoint=Described(name="small", sha256="0"), roles=ROLES))


def talker() -> Checkpoint:
    """A random model that says colours and EOS alone and listens to its prompt: its answers are of many lengths."""
    made = checkpoint(43)  # among the first seeds the one whose answers differ most
    for name, parameter in made.transformer.named_parameters():
        if "cross_attn.W_O.weight" in name or "W_Q.weight" in name:
            parameter.mul_(4)
    for number, token in enumerate(TOKENS):
        made.transformer.unembed.bias[number] += 0.0 if token in COLOURS else 2.0 if token == "EOS" else -30.0
    return made


def net_of(checkpoint: Checkpoint) -> Net:
    c = checkpoint.record.config
    weights = checkpoint.transformer.state_dict()
    return Net(weights, c.encoder_layers, c.decoder_layers, c.heads, c.position_scale)


def of_arity(arity: int, count: int, start: int = 0) -> tuple[Episode, ...]:
    return tuple(e for e in make_splits(0).test[start:] if len(e.question.arguments) == arity)[:count]


TWO = of_arity(2, 6)  # prompts and answers of many lengths, in no order
MIXED = (*of_arity(1, 2), *of_arity(2, 4, 30))


def ask(checkpoint: Checkpoint, shown: Sequence[Episode], train: Sequence[Episode] = (), /, **keys: object) -> Result:
    """Run a recipe on these episodes, in batches of a few; `train` are those of the train split."""
    splits = replace(make_splits(0), test=tuple(shown), train=tuple(train))
    whole = Engine.batches
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steer.tasks.compositional.selection, "make_splits", lambda seed: {DATA_SEED: splits}[seed])
        patch.setattr(steer.tasks.compositional.task, "make_splits", lambda seed: {DATA_SEED: splits}[seed])
        patch.setattr(Engine, "batches", lambda self, some, size=0, in_order=False: whole(self, some, BATCH, in_order))
        return run(build_recipe(**({"episodes": {"count": 100}} | keys)), checkpoint)


Said = dict[str, dict[int, list[str]]]  # condition -> episode -> tokens, EOS included


def listen(checkpoint: Checkpoint, shown: Sequence[Episode], /, **keys: object) -> tuple[Result, Said]:
    """The same, and what the model wrote in each condition. Behind EOS there may only be padding."""
    said: Said = {}
    real = Session.generate

    def generate(self: Session, run: Run, batch: Batch) -> Tensor:
        written = real(self, run, batch)
        for row, line in zip(batch.rows, written.tolist(), strict=True):
            tokens = [TOKENS[number] for number in line]
            end = tokens.index("EOS") + 1 if "EOS" in tokens else len(tokens)
            assert set(tokens[end:]) <= {"PAD"}
            said.setdefault(run.condition or "", {})[row] = tokens[:end]
        return written

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "generate", generate)
        return ask(checkpoint, shown, **keys), said


def trials(net: Net, episodes: Sequence[Episode], others: Sequence[Episode] = ()) -> list[Trial]:
    """Each episode with the right answer fed in; means over all of them stand in for what is ablated."""
    made = [Trial(net, ids(e.prompt), ids(("SOS", *e.answer))) for e in episodes]
    stand_in = by_hand.means(made)
    for number, trial in enumerate(made):
        trial.stand_in = stand_in
        trial.other = ids(others[number].prompt) if others else None
    return made


def same(result: Result, conditions: dict[str, Condition], made: Sequence[Trial], sites: Sequence[str]) -> None:
    """Every saved tensor of every condition, row by row, equals what is found by hand."""
    assert result.tensors.keys() == {f"{condition}/{site}" for condition in conditions for site in sites}
    for name, condition in conditions.items():
        for row, trial in enumerate(made):
            seen = trial.run(condition(trial))
            for site in sites:
                close(result.tensors[f"{name}/{site}"][row], seen[site])


def close(found: Tensor, wanted: Tensor) -> None:
    """Equal to 1e-10 where there is a token; behind the last token is padding."""
    torch.testing.assert_close(found[tuple(slice(n) for n in wanted.shape)], wanted, rtol=0, atol=1e-10)


def values(result: Result, **labels: str) -> dict[str, dict[str, float]]:
    """condition -> position -> value, of the rows with these labels."""
    found: dict[str, dict[str, float]] = {}
    for row in result.rows:
        if all(getattr(row, key) == label for key, label in labels.items()):
            place = "all" if row.position is None else str(row.position)
            found.setdefault(row.condition, {})[place] = row.value
    return found


def table(lines: Sequence[Sequence[float]]) -> dict[str, float]:
    """The mean over everything and over each position, from one list of numbers an episode."""
    flat = [value for line in lines for value in line]
    found = {"all": sum(flat) / len(flat)}
    for step in range(max(map(len, lines))):
        here = [line[step] for line in lines if len(line) > step]
        found[str(step + 1)] = sum(here) / len(here)
    return found


def mass(pattern: Tensor, prompt: Sequence[str], answer: Sequence[str]) -> list[float]:
    """How much attention each step pays to tokens that are the colour that should come next."""
    right = [torch.tensor([token == colour for token in prompt]) for colour in answer]
    return [float(pattern[step][where].sum()) for step, where in enumerate(right)]
