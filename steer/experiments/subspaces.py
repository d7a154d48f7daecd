"""In which few dimensions of a site does a variable live? Distributed alignment search (Geiger et al., 2024).

A rotation of the features of each site is learnt, whose first k coordinates, taken from the counterpart's run, make the
model give the counterpart's answer. It is fitted on some examples and judged on others, by the runs of an ordinary
plan. A search always finds something: the recipe's controls (`recipe/kinds/align.py`) say what that is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from steer.anatomy.nodes import Site
from steer.base.dice import Dice
from steer.base.errors import KeyedError, keyed
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.engine.values import Worlds
from steer.measures.probability import answer_likelihood
from steer.models.protocol import Batch
from steer.models.subject import Subject
from steer.plan.plan import CLEAN, COUNTERPART, Current, Edit, Of, Run, Spot, Stored, Within, make_plan
from steer.recipe.lowering import Lowered, Search
from steer.recipe.schema import Learning, Recipe
from steer.results.directions import About, Direction, Floats, filed
from steer.tasks.task import ANSWER, Example, Selection

FEWEST = 8  # examples that a search is fitted on
MOST = 10_000  # that it chooses among
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Fitting:
    """How a rotation is learnt."""

    epochs: int = 20
    rate: float = 0.02  # of Adam, falling to zero
    batch: int = 50
    seed: int = 0
    places: tuple[Spot, ...] = ()  # where a site takes its counterpart's coordinates; empty: everywhere


@dataclass(frozen=True)
class Pairs:
    """Examples with the answer that their counterpart has, and the counterparts, one for each."""

    examples: Sequence[Example]
    counterparts: Sequence[Example]


def learn(
    engine: Engine, pairs: Pairs, searches: Sequence[Search], fitting: Fitting, tell: Tell = lambda done: None
) -> dict[Stored, Floats]:
    """What every search finds."""
    known: dict[Stored, Floats] = {}
    for number, search in enumerate(searches):

        def report(done: float, number: int = number) -> None:
            tell((number + done) / len(searches))

        sizes = {site: _size(engine, site, search) for site, _ in search.rows}
        bases = drawn(engine, sizes, fitting.seed) if search.random else fit(engine, pairs, sizes, fitting, report)
        known |= {stored: bases[site] for site, stored in search.rows}
    return known


def as_files(
    recipe: Recipe, subject: Subject, lowered: Lowered, learnt: Mapping[Stored, Floats]
) -> dict[str, Direction]:
    """The subspaces that were learnt, to be written beside a result: recipes can name them. Controls are left out."""
    own = [search for search in lowered.searches if not search.random and not search.control]
    files = {
        stored.name: Direction(learnt[stored], _about(recipe, subject, site))
        for search in own
        for site, stored in search.rows
    }
    return filed(files)


def _about(recipe: Recipe, subject: Subject, site: Site) -> About:
    weights, words = subject.weights, f"dimensions of {site} in which {recipe.changed_variable} lives"
    seen = recipe.learning.train.count if recipe.learning else 0
    return About(
        way="align", site=str(site), words=words, checkpoint=weights.name, sha256=weights.sha256,
        task=subject.task.name, examples=seen, seed=recipe.seed, scores={},
    )  # fmt: skip


def _size(engine: Engine, site: Site, search: Search) -> int:
    most = features(engine, site)
    if search.size is not None and search.size > most:
        raise KeyedError([(search.key, f"{site} has {most} dimensions, not {search.size}")])
    return most if search.size is None else search.size


def features(engine: Engine, site: Site) -> int:
    return engine.model.size(engine.steps.hook(site))[-1]


def training_pairs(subject: Subject, learning: Learning, judged: Inputs) -> Pairs:
    """Without any prompt that the search is judged on, as an example or as a counterpart."""
    seen = {one.prompt for one in (*judged.examples, *judged.counterparts)}
    wanted = learning.train
    both = _unseen(subject, learning, wanted, seen)
    if len(both) < FEWEST:  # drawn where the judged ones were, as of a file without splits: what those leave
        both = _unseen(subject, learning, wanted.model_copy(update={"count": MOST}), seen)[: wanted.count]
    if len(both) < FEWEST:
        text = f"{len(both)} examples with a counterpart {learning.variable!r} are left that it is not judged on"
        raise KeyedError(
            [(("train",), f"{text}; a search needs at least {FEWEST} (fewer `episodes`, or another `split`)")]
        )
    return Pairs([one for one, _ in both], [other for _, other in both])


def _unseen(
    subject: Subject, learning: Learning, wanted: Selection, seen: set[tuple[str, ...]]
) -> list[tuple[Example, Example]]:
    with keyed("train"):
        drawn = subject.task.examples(wanted, subject.data_seed, learning.variable)
    found = pairs_of(subject, drawn, learning.variable)
    pairs = zip(found.examples, found.counterparts, strict=True)
    return [pair for pair in pairs if seen.isdisjoint(one.prompt for one in pair)]


def pairs_of(subject: Subject, examples: Sequence[Example], variable: str) -> Pairs:
    """Those that have a counterpart with as many tokens, and an answer."""
    both = [(one, other) for one in examples if (other := subject.task.counterpart(one, variable)) is not None]
    both = [(one, other) for one, other in both if len(one.prompt) == len(other.prompt) and other.answer]
    return Pairs([one.answering(other.answer) for one, other in both], [other for _, other in both])


def shuffled(examples: Sequence[Example], counterparts: Sequence[Example], seed: int) -> list[Example]:
    """For each example the counterpart of another one, of a prompt of the same length; its own where there is none."""
    by_length: dict[int, list[int]] = {}
    for row, example in enumerate(examples):
        by_length.setdefault(len(example.prompt), []).append(row)
    given = list(counterparts)
    for length, rows in by_length.items():
        drawn = Dice(seed, "shuffled", length).shuffled(rows)
        for row, other in zip(drawn, [*drawn[1:], *drawn[:1]], strict=True):
            given[row] = counterparts[other]
    return given


def fit(
    engine: Engine, pairs: Pairs, sizes: Mapping[Site, int], fitting: Fitting, tell: Tell = lambda done: None
) -> dict[Site, Floats]:
    """For each site the first rows of its rotation, orthonormal: k D. All are learnt together."""
    turns = _rotations(engine, sizes, fitting.seed)
    if all(size == features(engine, site) for site, size in sizes.items()):  # any rotation of a whole site is the site
        return _rows(turns)
    session = _session(engine, pairs, list(sizes), fitting)
    (run,) = session.plan.stages[1].runs
    with torch.no_grad():
        worlds = [session.worlds(batch) for batch in session.batches]
    optimiser = torch.optim.Adam([weight for turn in turns.values() for weight in turn.parameters()], lr=fitting.rate)
    steps = fitting.epochs * len(worlds)
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    dice = Dice(fitting.seed, "order")
    for epoch in range(fitting.epochs):
        for number, place in enumerate(dice.shuffled(range(len(worlds)))):
            optimiser.zero_grad()
            loss = -_likelihood(session, run, worlds[place], session.batches[place], turns)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            falling.step()
            tell((epoch * len(worlds) + number + 1) / steps)
    return _rows(turns)


def drawn(engine: Engine, sizes: Mapping[Site, int], seed: int) -> dict[Site, Floats]:
    """Subspaces of the same sizes in no particular direction: where a search starts."""
    return _rows(_rotations(engine, sizes, seed))


def _rotations(engine: Engine, sizes: Mapping[Site, int], seed: int) -> dict[Site, nn.Linear]:
    return {site: _rotation(engine, site, size, (seed, number)) for number, (site, size) in enumerate(sizes.items())}


def _rows(turns: Mapping[Site, nn.Linear]) -> dict[Site, Floats]:
    return {site: turn.weight.detach().double().cpu().numpy() for site, turn in turns.items()}


def _session(engine: Engine, pairs: Pairs, sites: Sequence[Site], fitting: Fitting) -> Session:
    edits = tuple(Edit(site, Within(_learnt(site), Of(COUNTERPART), Current()), fitting.places) for site in sites)
    plan = make_plan(Run(CLEAN), [Run("aligned", edits, (engine.layout.logits,), "aligned")])
    return Session(engine, plan, Inputs(pairs.examples, pairs.counterparts, size=fitting.batch))


def _learnt(site: Site) -> Stored:
    return Stored(f"learnt at {site}", "")


def _rotation(engine: Engine, site: Site, size: int, seed: tuple[int, int]) -> nn.Linear:
    """A matrix that stays orthonormal whatever a step does to what it is made of."""
    like, most = engine.model.like, features(engine, site)
    linear = nn.Linear(most, size, bias=False, device=like.device, dtype=like.dtype)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.random.default_rng(seed).standard_normal((size, most))))
    with torch.random.fork_rng(devices=[]):  # what completes the rows to a rotation is drawn inside
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        orthogonal(linear)
    return linear


def _likelihood(session: Session, run: Run, worlds: Worlds, batch: Batch, turns: Mapping[Site, nn.Linear]) -> Tensor:
    """The mean log-likelihood of the counterparts' answers, with the subspaces taken from the counterparts."""
    worlds.stored = {_learnt(site): turn.weight for site, turn in turns.items()}
    with torch.enable_grad():
        logits = batch.at(ANSWER, session.run(run, worlds)[session.engine.layout.logits])
        return answer_likelihood(logits, batch.target, session.engine.model.pad).mean()


def angles(one: Floats, other: Floats) -> Floats:
    """The principal angles between two subspaces, in radians, smallest first."""
    q, p = (np.linalg.qr(rows.T)[0] for rows in (one, other))
    return np.arccos(np.clip(np.linalg.svd(q.T @ p, compute_uv=False), -1.0, 1.0))
