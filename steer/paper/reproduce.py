"""Every figure and claim of the paper on one checkpoint: recipes in, a folder of figures and a table of claims out.

Or every number of the authors' notebooks, which were made on their own weights.

All recipes share one engine, and with it the clean run of those that look at the same episodes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from steer.anatomy.named import named_keys
from steer.anatomy.names import Names
from steer.base.errors import SteerError
from steer.base.files import write_atomically
from steer.base.shipped import RECIPES, recipe_names
from steer.base.shown import Card, Shown
from steer.drawing.page import Line, Page, Section, write_page
from steer.experiments.many import Outcome, run_loaded
from steer.paper.anchors import SOURCE, judge_anchors
from steer.paper.claims import judge_all
from steer.paper.verdicts import AS, DIFFERS, FULL, OPEN, QUICK, Roles, Verdict, tally
from steer.recipe.kinds.compare import Compare, Condition
from steer.recipe.load import Loaded, load_recipe
from steer.results.circuit import CIRCUIT, Circuit, write_circuit
from steer.results.files import ROWS
from steer.results.provenance import Json, Provenance
from steer.results.result import Result
from steer.results.rows import ROW_TITLES, overall, row_cells

if TYPE_CHECKING:
    from steer.experiments.cluster import Cluster
    from steer.models.checkpoint import Checkpoint

Advance = Callable[[float, str], None]
Spec = TypeVar("Spec", bound=BaseModel)
CIRCUIT_SECTION = "circuit"
MARKS = {AS: "same", DIFFERS: "other", OPEN: "open"}  # the colour of a verdict's line


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
    against: Against = PAPER, cluster: Cluster | None = None, place: str = "", questions: tuple[str, ...] = (),
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
    run = _run_here if cluster is None else partial(_run_there, cluster=cluster, place=place)
    outcomes |= run(fitted, checkpoint, out, force, advance)
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


def _run_here(
    fitted: Mapping[Path, Loaded], checkpoint: Checkpoint, out: Path, force: bool, advance: Advance
) -> dict[Path, Outcome]:
    """One after another, on one engine."""
    from steer.engine.engine import Engine

    engine, found = Engine(checkpoint.model), dict[Path, Outcome]()
    for number, (path, loaded) in enumerate(fitted.items()):

        def tell(done: float, number: int = number, name: str = path.stem) -> None:
            advance((number + done) / len(fitted), name)

        tell(0)
        found[path] = run_loaded(loaded, checkpoint, out / path.stem, force, tell, engine)
    return found


def _run_there(
    fitted: Mapping[Path, Loaded],
    checkpoint: Checkpoint,
    out: Path,
    force: bool,
    advance: Advance,
    cluster: Cluster,
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
    found = {
        path: outcome_of(path, fitted[path], ended, out / path.stem)
        for path, ended in run_orders(orders, cluster, advance)
    }
    faults = [fault for outcome in found.values() for fault in outcome.faults]
    if faults:
        raise SteerError(*faults)
    return found


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


def page_of(made: Reproduction) -> Page:
    """The table of claims and every figure."""
    quick = next((claim.status for claim in made.claims if claim.status.startswith(QUICK)), "")
    how = "Intervals are 95 %, bootstrapped over episodes. Verdicts follow from the numbers by the rule beside them."
    return Page(
        title=" ".join((f"{made.against.title} on {made.checkpoint}", *made.questions)),
        notice=f"A {quick}." if quick else "",
        lead=" ".join(filter(None, (f"{len(made.claims)} claims: {tally(made.claims)}.", how, made.against.note))),
        columns=("Fig.", "claim", made.against.where, "this checkpoint", made.against.rule, "verdict", "recipe"),
        lines=[_line(claim, made) for claim in made.claims],
        sections=[*_circuit_section(made), *(_section(outcome, made) for outcome in made.outcomes)],
        small=made.against.rule,
    )


def _line(claim: Verdict, made: Reproduction) -> Line:
    cells = (claim.figure, claim.claim, claim.paper, claim.here, claim.rule, claim.verdict, claim.recipe)
    shown = {outcome.name: outcome.name for outcome in made.outcomes}
    shown |= {CIRCUIT: CIRCUIT_SECTION} if made.circuit else {}
    return Line(MARKS.get(claim.kind, "none"), cells, shown.get(claim.recipe, ""))


def _circuit_section(made: Reproduction) -> list[Section]:
    if made.circuit is None:
        return []
    claims = [(n, f"{c.figure} {c.kind}") for n, c in enumerate(made.claims, 1) if c.recipe == CIRCUIT]
    caption = "what feeds the output heads, traced from the logits back to the prompt"
    command = f"steer discover --checkpoint {made.checkpoint}"
    return [Section(CIRCUIT_SECTION, caption, [made.circuit], claims=claims, command=command)]


def _section(outcome: Outcome, made: Reproduction) -> Section:
    """One recipe: its claims, figure and rows, the command that gives them again, and where they come from."""
    claims = [(n, f"{c.figure} {c.kind}") for n, c in enumerate(made.claims, 1) if c.recipe == outcome.name]
    text = next((path.read_text() for path in made.against.recipes() if path.stem == outcome.name), "")
    if outcome.result is None:
        return Section(outcome.name, faults=outcome.faults, claims=claims, recipe=text)
    result = outcome.result
    file = os.path.relpath(result.folder / ROWS, made.index.parent) if result.folder else ""
    return Section(
        outcome.name, result.provenance.description, outcome.pictures, (), claims,
        _command(outcome.name, result.provenance, made.questions), text,
        ROW_TITLES, [row_cells(row) for row in overall(result.rows)], file, _provenance(result.provenance),
    )  # fmt: skip


def _command(name: str, origin: Provenance, questions: Sequence[str]) -> str:
    shipped = next((known for known in recipe_names() if known.rpartition("/")[2] == name), name)
    count = origin.recipe.get("episodes", {}).get("count")
    others = [change for change in questions if not change.startswith("episodes.count=")]
    return " ".join(
        ("steer run", shipped, f"checkpoint={origin.checkpoint.name}", *map(quote, others), f"episodes.count={count}")
    )


def _provenance(origin: Provenance) -> list[tuple[str, str]]:
    said = [
        ("checkpoint", f"{origin.checkpoint.name}, weights {origin.checkpoint.sha256[:12]}"),
        ("episodes", f"{origin.examples:,} of {origin.wanted:,} asked for"),
        ("ablation", origin.ablation),
        ("intervals", origin.intervals),
        ("forward passes for each batch", str(origin.forwards)),
        ("computed on", f"{origin.device}, {origin.dtype}, {origin.seconds:.1f} s"),
        ("versions", ", ".join(f"{name} {version}" for name, version in origin.versions.items())),
        ("content", origin.hash[:12]),
    ]
    return [(name, value) for name, value in said if value]


def fit(loaded: Loaded, checkpoint: Checkpoint, episodes: int | None = None) -> tuple[Loaded, tuple[str, ...]]:
    """The recipe fitted to this checkpoint and checked; and why parts of it were left out."""
    fitted, lost = without_missing_roles(loaded, checkpoint.names)
    changes: dict[str, Any] = {"checkpoint": checkpoint.name}
    if episodes is not None:
        wanted = fitted.recipe.episodes
        changes["episodes"] = wanted.model_copy(update={"count": min(episodes, wanted.count)})
    fitted = replace(fitted, recipe=fitted.recipe.model_copy(update=changes))
    fitted.lower(checkpoint.names)
    return fitted, lost


def without_missing_roles(loaded: Loaded, names: Names) -> tuple[Loaded, tuple[str, ...]]:
    """The recipe without the conditions and measures whose role no head of this checkpoint plays; and why."""
    recipe = loaded.recipe
    lost: list[str] = []

    def there(name: str) -> bool:
        try:
            names.heads(name.partition(".")[0].replace(":any", ":all")) if name.startswith("$") else None
        except SteerError as error:
            lost.extend(error.faults)
            return False
        return True

    measures = [_measure(measure, there) for measure in recipe.measures]
    changes: dict[str, Any] = {"measures": tuple(measure for measure in measures if measure is not None)}
    if isinstance(recipe, Compare):
        changes["conditions"] = tuple(condition for condition in recipe.conditions if _played(condition, there))
    if not changes["measures"] or changes.get("conditions") == ():
        raise SteerError(*dict.fromkeys(lost))
    return replace(loaded, recipe=recipe.model_copy(update=changes)), tuple(dict.fromkeys(lost))


def _played(condition: Condition, there: Callable[[str], bool]) -> bool:
    """Are the heads there that a condition needs? `:any` beside others that are ablated need not be."""
    needed = [name for name in condition.ablate if ":any" not in name] or condition.ablate
    return all(map(there, (*needed, *condition.keep, *condition.among)))


def _measure(measure: Spec, there: Callable[[str], bool]) -> Spec | None:
    """The measure without names that the checkpoint lacks; None if nothing is left."""
    changes: dict[str, Any] = {}
    for key in named_keys(type(measure)):
        names = getattr(measure, key)
        kept = [name for name in ([names] if isinstance(names, str) else names) if there(name)]
        if not kept:
            return None
        changes[key] = names if isinstance(names, str) else tuple(kept)
    return measure.model_copy(update=changes)
