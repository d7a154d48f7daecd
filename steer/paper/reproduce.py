"""Every figure and claim of the paper on one checkpoint: recipes in, a folder of figures and a table of claims out.

Or every number of the authors' notebooks, which were made on their own weights.

All recipes share one engine, and with it the clean run of those that look at the same episodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import SteerError
from steer.base.files import write_atomically
from steer.base.json import Json
from steer.base.shipped import RECIPES
from steer.base.shown import Card, Shown
from steer.drawing.page import write_page
from steer.experiments.many import Outcome, run_loaded
from steer.paper.anchors import SOURCE, judge_anchors
from steer.paper.claims import judge_all
from steer.paper.fit import fit
from steer.paper.page import CIRCUIT_SECTION, page_of
from steer.paper.verdicts import FULL, QUICK, Roles, Verdict, tally
from steer.recipe.load import Loaded, load_recipe
from steer.results.circuit import Circuit, write_circuit
from steer.results.files import saved_result
from steer.results.result import Result

if TYPE_CHECKING:
    from steer.experiments.spread import Workers
    from steer.models.checkpoint import Checkpoint

Advance = Callable[[float, str], None]


def paper_recipes() -> list[Path]:
    return [*sorted((RECIPES / "paper").glob("*.yaml")), RECIPES / "swap_index.yaml"]


def notebook_recipes() -> list[Path]:
    return sorted((RECIPES / "authors").glob("*.yaml"))


@dataclass(frozen=True)
class Against:
    """What a checkpoint is compared with: recipes, claims about their results, and words for the page."""

    title: str
    where: str  # the heads of two columns
    rule: str
    recipes: Callable[[], list[Path]]
    judge: Callable[[Mapping[str, Result], Roles, Mapping[str, str], str], list[Verdict]]
    note: str = ""


PAPER = Against(
    "The paper's figures and claims", "in the paper", "rule: as in the paper if", paper_recipes, judge_all,
)  # fmt: skip
AGAINST = {
    "paper": PAPER,
    "authors": Against(
        "The numbers of the authors' notebooks", "in the notebooks", "rule: as in the notebooks if", notebook_recipes,
        judge_anchors, f"Heads go by the authors' numbers, which mean nothing on other weights. Numbers from {SOURCE}.",
    ),
}  # fmt: skip


@dataclass(repr=False)
class Reproduction(Shown):
    checkpoint: str
    outcomes: list[Outcome]
    claims: list[Verdict]
    index: Path
    against: Against = PAPER
    questions: tuple[str, ...] = ()  # `episodes.KEY=VALUE`, where other questions were asked than the recipes'
    circuit: Path | None = None  # the picture of the checkpoint's circuit, where one is known

    def card(self) -> Card:
        rows = [(claim.figure, claim.claim, claim.paper, claim.here, claim.verdict) for claim in self.claims]
        title = f"{self.checkpoint}: {len(self.claims)} claims: {tally(self.claims)}"
        return Card(title, [("page", str(self.index))], ("Fig.", "claim", self.against.where, "here", "verdict"), rows)

    def to_json(self) -> Json:
        return {
            "checkpoint": self.checkpoint,
            "claims": [asdict(claim) | {"outcome": claim.kind} for claim in self.claims],
        }


def reproduce(
    checkpoint: Checkpoint, out: Path, advance: Advance, episodes: int | None = None, force: bool = False,
    against: Against = PAPER, cluster: Workers | None = None, place: str = "", questions: tuple[str, ...] = (),
) -> Reproduction:  # fmt: skip
    """Run every recipe of the paper, each on its own number of episodes, capped by `episodes`.

    `questions`: changes of every recipe's episodes. `place`: where the workers of a cluster find the checkpoint.
    """
    fitted: dict[Path, Loaded] = {}
    missing: dict[str, str] = {}
    outcomes: dict[Path, Outcome] = {}
    paths = against.recipes()
    for path in paths:
        try:
            fitted[path], lost = fit(load_recipe(str(path), *questions, task=checkpoint.task), checkpoint, episodes)
        except SteerError as error:  # a role that this checkpoint lacks: the table says so
            lost = tuple(dict.fromkeys(fault.text for fault in error.faults))
            outcomes[path] = Outcome(path.stem, faults=lost)
        missing[path.stem] = "; ".join(lost)
    known = (
        {}
        if force
        else {path: loaded for path, loaded in fitted.items() if _is_known(loaded, checkpoint, out / path.stem)}
    )
    left = {path: loaded for path, loaded in fitted.items() if path not in known}
    outcomes |= _run_here(known, checkpoint, out, force, lambda done, name: None)
    run = _run_here if cluster is None else partial(_run_there, cluster=cluster, place=place)
    outcomes |= run(left, checkpoint, out, force, advance)
    roles: dict[str, list[str]] = {
        role: [str(node) for node in heads] for role, heads in checkpoint.names.roles.items()
    }
    ordered = [outcomes[path] for path in paths]
    results = {outcome.name: outcome.result for outcome in ordered if outcome.result is not None}
    status = FULL if episodes is None else f"{QUICK}: {episodes:,} episodes at most for each recipe"
    status = "; ".join((status, *questions))
    claims = against.judge(results, roles, missing, status)
    picture = _draw_circuit(checkpoint.circuit, out / CIRCUIT_SECTION)
    made = Reproduction(checkpoint.name, ordered, claims, out / "index.html", against, questions, picture)
    write_tables(made, out)
    return made


def _is_known(loaded: Loaded, checkpoint: Checkpoint, folder: Path) -> bool:
    from steer.experiments.sweeping import question_hash

    return saved_result(folder, question_hash(loaded, checkpoint)) is not None


def _run_here(
    fitted: Mapping[Path, Loaded], checkpoint: Checkpoint, out: Path, force: bool, advance: Advance
) -> dict[Path, Outcome]:
    """One after another, on one engine."""
    from steer.engine.engine import Engine

    engine, outcomes = Engine(checkpoint.model), dict[Path, Outcome]()
    for number, (path, loaded) in enumerate(fitted.items()):

        def tell(done: float, number: int = number, name: str = path.stem) -> None:
            advance((number + done) / len(fitted), name)

        tell(0)
        outcomes[path] = run_loaded(loaded, checkpoint, out / path.stem, force, tell, engine)
    return outcomes


def _run_there(
    fitted: Mapping[Path, Loaded],
    checkpoint: Checkpoint,
    out: Path,
    force: bool,
    advance: Advance,
    cluster: Workers,
    place: str,
) -> dict[Path, Outcome]:
    """On the workers of a cluster. A recipe that fails there stops nothing, and is then an error."""
    from steer.experiments.orders import order_of
    from steer.experiments.spread import hashes, outcome_of, run_orders

    device = str(checkpoint.device)
    orders = {
        path: order_of(loaded, place, device=device, known=frozenset() if force else hashes([out / path.stem]))
        for path, loaded in fitted.items()
    }
    outcomes = {
        path: outcome_of(path, fitted[path], ended, out / path.stem)
        for path, ended in run_orders(orders, cluster, advance)
    }
    faults = [fault for outcome in outcomes.values() for fault in outcome.faults]
    if faults:
        raise SteerError(*faults)
    return outcomes


def _draw_circuit(circuit: Circuit | None, folder: Path) -> Path | None:
    """A picture that fails must not lose the numbers."""
    from steer.drawing.figures.circuit import draw_circuit
    from steer.drawing.figures.draw import attempt

    if circuit is None or not circuit.members:
        return None
    write_circuit(circuit, folder)
    return attempt(lambda: draw_circuit(circuit, folder), CIRCUIT_SECTION)[0]


def write_tables(made: Reproduction, out: Path) -> None:
    import pandas as pd

    write_atomically(out / "claims.csv", pd.DataFrame(made.to_json()["claims"]).to_csv(index=False))
    write_atomically(out / "claims.json", json.dumps(made.to_json(), indent=1) + "\n")
    write_page(page_of(made), made.index)
