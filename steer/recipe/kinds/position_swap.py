"""position-swap: two tokens of the question exchange their position embeddings, as seen by some ports alone."""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Site
from steer.plan.plan import CLEAN, Current, Edit, Exchanged, Of, Rebuilt, Run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import PositionSwap, Steer

AFTER = "after"


def swap(recipe: PositionSwap, lowering: Lowering) -> list[Run]:
    names = lowering.names
    named = names.ports(("ports",), recipe.ports)
    _check_exchange(recipe, lowering)
    check_selection(recipe, lowering, "a swap")
    lowering.check_positions(("ports",), named)
    names.wanted(("ports",), named)
    ports = lowering.reach.sites(("ports",), named)
    if names.faults:
        return []
    return [lowering.run(AFTER, exchange(lowering.layout, ports, recipe.tokens, recipe.places))]


def _check_exchange(recipe: PositionSwap, lowering: Lowering) -> None:
    """The task must know what an exchange of these two places does."""
    known = recipe.task.exchange
    if known is None:
        text = f"the task {recipe.task.name!r} has no two tokens whose positions can be exchanged"
        lowering.names.fault(("kind",), text)
    elif set(recipe.tokens) != set(known.places):
        places = " and ".join(map(str, known.places))
        lowering.names.fault(("tokens",), f"must be {places}: {known.reason}")


def check_selection(recipe: PositionSwap | Steer, lowering: Lowering, who: str) -> None:
    """Only examples of which something can be changed."""
    needed = recipe.task.needed
    for key, value in needed.keys.items():
        if getattr(recipe.episodes, key) != value:
            lowering.names.fault(("episodes", key), f"{who} needs {needed.text}")


def exchange(layout: Layout, ports: Sequence[Site], tokens: tuple[int, int], places: tuple[int, ...]) -> list[Edit]:
    """Two tokens' position embeddings exchanged, as seen by these ports."""
    edits = []
    for port in ports:
        positions = layout.positions(port)
        assert positions is not None  # checked before
        changes = ((positions, Exchanged(Of(CLEAN), tokens)),)
        edits.append(Edit(port, Rebuilt(Current(), changes), places))
    return edits
