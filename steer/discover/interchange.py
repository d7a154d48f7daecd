"""Is the task's program what the circuit computes? Interchange interventions on its variables.

An example has a counterpart that differs in one variable. The value of some sites is taken from the counterpart's run,
everything else stays. If those sites carry the variable and it is used as the program says, the model now writes the
answer that the program gives with this one variable changed (Geiger et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from steer.anatomy.names import Shape, Site
from steer.base.dice import Dice
from steer.discover.lab import LOGITS, Lab
from steer.engine.engine import Part
from steer.models.batch import collate
from steer.models.checkpoint import Checkpoint
from steer.plan.plan import Counterpart, Put, Run, make_run
from steer.recipe.steered import others
from steer.results.evidence import Interchange
from steer.tasks.task import Example

DRAWS = 5  # sets of other heads, for the null


class Exchange:
    """A lab whose episodes have the counterpart's answer, with the counterpart's values at hand."""

    def __init__(self, checkpoint: Checkpoint, episodes: Sequence[Example], variable: str, seed: int = 0) -> None:
        changed = [checkpoint.task.counterpart(episode, variable) for episode in episodes]
        others = [other for other in changed if other is not None]
        # Greedy decoding writes an answer exactly when each of its tokens is the likeliest after those before it.
        predicted = [e.answering(other.answer) for e, other in zip(episodes, others, strict=True)]
        self.lab = Lab(checkpoint, predicted, seed)
        engine = self.lab.engine
        with torch.no_grad():
            for part, bench in zip(self.lab.parts, self.lab.benches, strict=True):
                tokens = collate([others[row] for row in part.rows], engine.vocabulary)
                prompt = torch.from_numpy(tokens.prompt).to(engine.device)
                bench.counterpart = engine.clean(Part(part.number, part.rows, prompt, part.output), engine.order)
        # What the model itself writes for the counterpart: no intervention can be expected to do better.
        self.ceiling = Lab(checkpoint, others, seed)

    def runs(self, sets: Mapping[str, Sequence[Site]]) -> list[Run]:
        return [
            make_run(self.lab.shape, name, [Put(site, Counterpart()) for site in sites], [LOGITS], name)
            for name, sites in sets.items()
        ]


def interchange(checkpoint: Checkpoint, episodes: Sequence[Example], seed: int = 0) -> list[Interchange]:
    """For each variable and the sites that the circuit's roles say carry it: how often the predicted answer comes."""
    shape, rows = checkpoint.shape, []
    shown = [episode for episode in episodes if checkpoint.task.chooses(episode)]
    for variable, places in checkpoint.task.carriers.items():
        sets = {f"{role}.{port}": _sites(shape, role, port) for role, port in places}
        sets = {name: sites for name, sites in sets.items() if sites}
        if not sets or not shown:
            continue
        exchange = Exchange(checkpoint, shown, variable, seed)
        lab = exchange.lab
        nulls = {
            f"{name} null {n}": same
            for name, sites in sets.items()
            for n in range(DRAWS)
            if len(same := others(shape, sites, Dice(seed, name, n))) == len(sites)  # fewer would be no match
        }
        measure, _ = lab.exact()
        found = lab.measure(exchange.runs(sets | nulls), measure, 1)
        ceiling = exchange.ceiling.estimate(exchange.ceiling.clean(exchange.ceiling.exact()[0], 1))
        without = lab.estimate(lab.clean(measure, 1))
        for name, sites in sets.items():
            drawn = [lab.mean(found[key]) for n in range(DRAWS) if (key := f"{name} null {n}") in found]
            null = round(float(np.mean(drawn)), 4) if drawn else None
            rows.append(
                Interchange(
                    variable=variable, sites=name, heads=tuple(str(site.node) for site in sites),
                    accuracy=lab.estimate(found[name]), null=null, without=without, ceiling=ceiling,
                    examples=len(shown),
                )
            )  # fmt: skip
    return rows


def _sites(shape: Shape, role: str, port: str) -> list[Site]:
    return [Site(head, port) for head in dict(shape.roles).get(role, ())]
