"""Experiments that edit some places only: which places there are, who has none of them, which tokens stand there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

from steer.anatomy.layout import Layout, carrier
from steer.anatomy.nodes import parse_site
from steer.base.errors import KeyedError
from steer.models.places import paired, task_sequence, there, unpaired
from steer.plan.plan import CLEAN, EACH, Edit, Exchanged, Of, Plan, Spot, Turned, starts_anew, values_within
from steer.results.details import PlaceTokens
from steer.tasks.task import PROMPT, Example, Task

DIFFERENT, START = "…", "start"  # tokens that are not the same in all examples; what a decoder begins with


class Spread:
    """How many places the sequences of a model have in some examples."""

    def __init__(self, examples: Sequence[Example], layout: Layout) -> None:
        answers = [len(example.answer) + 1 for example in examples]  # the start, and what was said before each step
        prompts = [len(example.prompt) for example in examples]
        counts = {layout.answer: answers} | {layout.prompt: prompts}  # one sequence for both has the prompt's places
        self.shortest = {sequence: min(lengths) for sequence, lengths in counts.items()}
        self.longest = {sequence: max(lengths) for sequence, lengths in counts.items()}
        self.layout = layout

    def warning(self, plan: Plan) -> str:
        """What `each` place leaves out: a number is of places that every example has."""
        edits = [edit for run in plan.runs for edit in run.edits if EACH in edit.places]
        sequences = dict.fromkeys(self.layout.sequence(edit.site) for edit in edits)
        uneven = [one for one in sequences if self.shortest[one] < self.longest[one]]
        return "; ".join(
            f"examples have {self.shortest[one]} to {self.longest[one]} places ({one}): "
            f"each of the first {self.shortest[one]} was patched"
            for one in uneven
        )


def place_warnings(plan: Plan, lengths: Mapping[str, int], layout: Layout) -> dict[str, str]:
    """Conditions whose edits name places that no sequence has. Where none of them is there, nothing was edited."""
    warnings, earlier = {}, ""  # the first link of a chain has the places, the last one the condition
    for run in plan.runs:
        edits = [edit for edit in run.edits if edit.places]
        beyond = {
            place
            for edit in edits
            for place in edit.places
            if isinstance(place, int) and place > lengths[layout.sequence(edit.site)]
        }
        if edits and all(place in beyond for edit in edits for place in edit.places):
            first = min(beyond)
            key = ("places", edits[0].places.index(first))
            raise KeyedError([(key, f"no sequence has a place {first}: {run.name!r} would edit nothing")])
        text = f"no sequence has a place {', '.join(map(str, sorted(beyond)))}" if beyond else earlier
        if text and run.condition:
            warnings[run.condition] = text
        earlier = "" if run.condition else text
    return warnings


def misfit(plan: Plan, layout: Layout) -> Callable[[Example], str]:
    """Why a plan cannot be run on an example; empty if it can."""
    missing, unfit = missing_place(plan, layout), not_exchanged(plan)
    return lambda example: missing(example) or unfit(example)


def not_exchanged(plan: Plan) -> Callable[[Example], str]:
    """Why the places that a plan exchanges cannot be, or are not where it edits."""
    edits = [(edit, value) for run in plan.runs for edit in run.edits for value in values_within(edit.value)]
    wanted = dict.fromkeys((v.places, edit.places) for edit, v in edits if isinstance(v, Exchanged | Turned))

    def unfit(example: Example) -> str:
        return next(filter(None, (_not_exchanged(example, *places) for places in wanted)), "")

    return unfit


def _not_exchanged(example: Example, two: tuple[Spot, Spot], edited: tuple[Spot, ...]) -> str:
    why, moved = unpaired(example, two), {place for pair in paired(example, two) for place in pair}
    if why or not edited or not moved.isdisjoint(there(example, PROMPT, edited)):
        return why
    return f"in which nothing is exchanged at {', '.join(map(str, edited))}"


def missing_place(plan: Plan, layout: Layout) -> Callable[[Example], str]:
    """What an example lacks of the places that a plan edits by name, or one after the other; empty if nothing."""
    wanted: dict[tuple[str, Spot], None] = {}
    for run in plan.runs:
        for edit in run.edits:
            named = [place for place in edit.places if place != EACH and (run.place or isinstance(place, str))]
            wanted |= dict.fromkeys((task_sequence(layout, edit.site), place) for place in named)

    def missing(example: Example) -> str:
        lacking = [place for sequence, place in wanted if not there(example, sequence, [place])]
        return f"without place {lacking[0]!r}" if lacking else ""

    return missing


def cut_warning(names: Iterable[str], task: Task, examples: Sequence[Example]) -> str:
    """Of these spans those that begin or end within a token of some example."""
    counts = {name: sum(name in task.cut_spans(example) for example in examples) for name in dict.fromkeys(names)}
    cut = [f"{name!r} in {count} of {len(examples)} examples" for name, count in counts.items() if count]
    return f"spans that cut a token: {', '.join(cut)}" if cut else ""


def check_apart(plan: Plan, examples: Sequence[Example], layout: Layout) -> None:
    """Two edits of one site at places of other names: in no example may one undo the other."""
    for run in plan.runs:
        for first, second in filter(_may_undo, combinations(run.edits, 2)):
            sequence = task_sequence(layout, first.site)
            two = [edit.places for edit in (first, second)]
            if any(set(there(one, sequence, two[0])).intersection(there(one, sequence, two[1])) for one in examples):
                at = " and at ".join(", ".join(map(str, spots)) for spots in two)
                text = f"{second.site} is edited at {at}, which meet in some examples: one undoes the other"
                raise KeyedError([(("conditions",), f"{run.condition or run.name!r}: {text}")])


def _may_undo(two: tuple[Edit, Edit]) -> bool:
    """Would the second edit undo the first where they meet, or change what the first holds?"""
    first, second = two
    named = any(isinstance(place, str) for place in (*first.places, *second.places))
    if carrier(first.site) != carrier(second.site) or not named or first.places == second.places:
        return False
    return bool(first.places and second.places) and (starts_anew(second.value) or first.value == Of(CLEAN))


def place_tokens(plan: Plan, examples: Sequence[Example], layout: Layout) -> list[PlaceTokens]:
    """The tokens at the places that are patched one by one, for whoever draws them."""
    places: dict[str, dict[str, int]] = {}  # sequence -> site -> its last place
    for run in plan.runs:
        if run.place.isdecimal():
            mine = places.setdefault(task_sequence(layout, parse_site(run.site)), {})
            mine[run.site] = max(mine.get(run.site, 0), int(run.place))
    return [
        PlaceTokens(tuple(sites), tuple(_token(examples, sequence, n) for n in range(max(sites.values()))))
        for sequence, sites in places.items()
    ]


def _token(examples: Sequence[Example], sequence: str, place: int) -> str:
    """What stands at a place, from 0, where it is the same in all examples that have it."""
    texts = [example.prompt if sequence == PROMPT else (START, *example.answer) for example in examples]
    tokens = {text[place] for text in texts if len(text) > place}
    return tokens.pop() if len(tokens) == 1 else DIFFERENT
