"""Is the task's program what the circuit computes? Interchange interventions on its variables.

An example has a counterpart that differs in one variable. The value of some sites is taken from the counterpart's run,
everything else stays. If those sites carry the variable and it is used as the program says, the model now writes the
answer that the program gives with this one variable changed (Geiger et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from steer.anatomy.names import Names
from steer.anatomy.nodes import Site
from steer.base.dice import Dice
from steer.discover.lab import Helpers, Lab
from steer.engine.engine import Engine
from steer.models.subject import Subject
from steer.plan.plan import COUNTERPART, Edit, Of, Run
from steer.recipe.sets import others
from steer.results.evidence import Interchange
from steer.tasks.task import Example

DRAWS = 5  # sets of other heads, for the null


class Exchange:
    """A lab whose episodes have the counterpart's answer, with the counterpart's values at hand."""

    def __init__(
        self, checkpoint: Subject, episodes: Sequence[Example], variable: str, seed: int, engine: Engine,
        helpers: Helpers | None = None,
    ) -> None:  # fmt: skip
        changed = [checkpoint.task.counterpart(episode, variable) for episode in episodes]
        others = [other for other in changed if other is not None]
        # Greedy decoding writes an answer exactly when each of its tokens is the likeliest after those before it.
        predicted = [e.answering(other.answer) for e, other in zip(episodes, others, strict=True)]
        self.lab = Lab(checkpoint, predicted, seed, engine, others, helpers)
        # What the model itself writes for the counterpart: no intervention can be expected to do better.
        self.ceiling = Lab(checkpoint, others, seed, engine)

    def runs(self, sets: Mapping[str, Sequence[Site]]) -> list[Run]:
        return [
            Run(name, tuple(Edit(site, Of(COUNTERPART)) for site in sites), (self.lab.logits,), name)
            for name, sites in sets.items()
        ]


def interchange(
    checkpoint: Subject,
    episodes: Sequence[Example],
    seed: int = 0,
    engine: Engine | None = None,
    names: Names | None = None,
    helpers: Helpers | None = None,
) -> list[Interchange]:
    """For each variable, and each set of sites that should carry it: how often the predicted answer is written.

    `names`: with the heads of each role, if they are not the checkpoint's own.
    """
    names, engine, rows = names or checkpoint.names, engine or Engine(checkpoint.model), []
    shown = [episode for episode in episodes if checkpoint.task.chooses(episode)]
    for variable, places in checkpoint.task.carriers.items():
        sets = {f"{role}.{port}": _sites(names, role, port) for role, port in places}
        sets = {name: sites for name, sites in sets.items() if sites}
        if sets and shown:
            exchange = Exchange(checkpoint, shown, variable, seed, engine, helpers)
            rows += _of_variable(exchange, variable, sets, _controls(names, sets, seed))
    return rows


def _controls(names: Names, sets: Mapping[str, Sequence[Site]], seed: int) -> dict[str, dict[str, Sequence[Site]]]:
    """For each set of sites several of as many other sites, by the name of their condition."""
    drawn = {
        name: {f"{name} null {number}": others(names, sites, Dice(seed, name, number)) for number in range(DRAWS)}
        for name, sites in sets.items()
    }
    return {  # a set of fewer would be no match
        name: {condition: sites for condition, sites in draws.items() if len(sites) == len(sets[name])}
        for name, draws in drawn.items()
    }


def _of_variable(
    exchange: Exchange, variable: str, sets: Mapping[str, Sequence[Site]],
    controls: Mapping[str, Mapping[str, Sequence[Site]]],
) -> list[Interchange]:  # fmt: skip
    lab, measured = exchange.lab, exchange.lab.exact()
    runs = exchange.runs(sets) + [run for draws in controls.values() for run in exchange.runs(draws)]
    tallies = lab.measure(runs, measured[0], 1)
    nulls = {name: [lab.mean(tallies[condition]) for condition in draws] for name, draws in controls.items()}
    ceiling = exchange.ceiling.estimate(exchange.ceiling.clean(exchange.ceiling.exact(), 1))
    without = lab.estimate(lab.clean(measured, 1))
    return [
        Interchange(
            variable=variable, sites=name, heads=tuple(str(site.node) for site in sites),
            accuracy=lab.estimate(tallies[name]), null=round(float(np.mean(nulls[name])), 4) if nulls[name] else None,
            without=without, ceiling=ceiling, examples=len(lab.episodes),
        )
        for name, sites in sets.items()
    ]  # fmt: skip


def _sites(names: Names, role: str, port: str) -> list[Site]:
    return [Site(head, port) for head in names.roles.get(role, ())]
