"""In which few dimensions of a site does a variable live? Distributed alignment search (Geiger et al., 2024).

A rotation of the site's features is learnt, whose first k coordinates, taken from the counterpart's run, make the model
give the counterpart's answer. It is fitted on some examples and judged on others. A search always finds something, so
the same search runs at other heads of the block, with counterparts that belong to other examples, and on a model with
random weights: what the site carries is what it finds beyond those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from steer.anatomy.nodes import Site
from steer.base.dice import Dice
from steer.discover.lab import answer_likelihood
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.engine.values import Worlds
from steer.models.subject import Subject
from steer.plan.plan import CLEAN, COUNTERPART, Current, Edit, Of, Run, Stored, Within, make_plan
from steer.results.directions import Floats
from steer.tasks.task import Example

LEARNT = Stored("the learnt subspace", "")
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Fitting:
    """How a rotation is learnt."""

    epochs: int = 20
    rate: float = 0.02  # of Adam, falling to zero
    batch: int = 50
    seed: int = 0


@dataclass(frozen=True)
class Pairs:
    """Examples with the answer that their counterpart has, and the counterparts, one for each."""

    examples: Sequence[Example]
    counterparts: Sequence[Example]


def pairs_of(subject: Subject, examples: Sequence[Example], variable: str) -> Pairs:
    """Those that have a counterpart with as many tokens."""
    both = [(one, other) for one in examples if (other := subject.task.counterpart(one, variable)) is not None]
    both = [(one, other) for one, other in both if len(one.prompt) == len(other.prompt)]
    return Pairs([one.answering(other.answer) for one, other in both], [other for _, other in both])


def shuffled(pairs: Pairs, seed: int) -> Pairs:
    """Each example with another one's counterpart, of a prompt of the same length; its own where there is none."""
    by_length: dict[int, list[int]] = {}
    for row, example in enumerate(pairs.examples):
        by_length.setdefault(len(example.prompt), []).append(row)
    given = list(pairs.counterparts)
    for length, rows in by_length.items():
        drawn = Dice(seed, "shuffled", length).shuffled(rows)
        for row, other in zip(drawn, [*drawn[1:], *drawn[:1]], strict=True):
            given[row] = pairs.counterparts[other]
    return Pairs(pairs.examples, given)


def fit(
    engine: Engine, pairs: Pairs, site: Site, size: int, fitting: Fitting, tell: Tell = lambda done: None
) -> Floats:
    """The first `size` rows of the rotation, orthonormal: k D."""
    session = _session(engine, pairs, site, fitting.batch)
    (run,) = session.plan.stages[1].runs
    with torch.no_grad():
        worlds = [session.worlds(batch) for batch in session.batches]
    targets = [batch.target for batch in session.batches]
    turn = _rotation(engine, site, size, fitting.seed)
    optimiser = torch.optim.Adam(turn.parameters(), lr=fitting.rate)
    steps = fitting.epochs * len(worlds)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    dice = Dice(fitting.seed, "order")
    for epoch in range(fitting.epochs):
        for number, place in enumerate(dice.shuffled(range(len(worlds)))):
            optimiser.zero_grad()
            loss = -_likelihood(session, run, worlds[place], targets[place], turn.weight)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            falling.step()
            tell((epoch * len(worlds) + number + 1) / steps)
    rows: Floats = turn.weight.detach().double().cpu().numpy()
    return rows


def _session(engine: Engine, pairs: Pairs, site: Site, batch: int) -> Session:
    edit = Edit(site, Within(LEARNT, Of(COUNTERPART), Current()))
    plan = make_plan(Run(CLEAN), [Run("aligned", (edit,), (engine.layout.logits,), "aligned")])
    return Session(engine, plan, Inputs(pairs.examples, pairs.counterparts, size=batch))


def _rotation(engine: Engine, site: Site, size: int, seed: int) -> nn.Linear:
    """A matrix that stays orthonormal whatever a step does to what it is made of."""
    features = engine.model.size(engine.steps.hook(site))[-1]
    linear = nn.Linear(features, size, bias=False, device=engine.model.like.device, dtype=engine.model.like.dtype)
    with torch.no_grad():
        drawn = np.random.default_rng(seed).standard_normal((size, features))
        linear.weight.copy_(torch.from_numpy(drawn))
    orthogonal(linear)
    return linear


def _likelihood(session: Session, run: Run, worlds: Worlds, target: Tensor, rows: Tensor) -> Tensor:
    """The mean log-likelihood of the counterparts' answers, with the subspace taken from the counterparts."""
    worlds.stored = {LEARNT: rows}
    with torch.enable_grad():
        logits = session.run(run, worlds)[session.engine.layout.logits]
        return answer_likelihood(logits, target, session.engine.model.pad).mean()


def angles(one: Floats, other: Floats) -> Floats:
    """The principal angles between two subspaces, in radians, smallest first."""
    q, p = (np.linalg.qr(rows.T)[0] for rows in (one, other))
    return np.arccos(np.clip(np.linalg.svd(q.T @ p, compute_uv=False), -1.0, 1.0))
