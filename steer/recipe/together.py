"""Edits that hold together must not undo one another, and each must be able to change what is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from steer.anatomy.layout import carrier, touched
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.plan.plan import CLEAN, Current, Edit, Of, Rebuilt, Sum, Value, starts_anew
from steer.recipe.interventions import Made
from steer.recipe.lowering import Lowering


def check_together(made: Sequence[Made], lowering: Lowering, key: Key) -> None:
    """Edits of one condition must not undo one another, and each must be able to change what is measured."""
    names, layout = lowering.names, lowering.layout
    placed = [(n, edit) for n, one in enumerate(made) for edit in _in_place(one)]
    frozen = [edit.site for _, edit in placed if edit.holds] + [edit.site for edit in lowering.freeze]
    for place, (n, edit) in enumerate(placed):
        before = [(m, other) for m, other in placed[:place] if _meet(other, edit)]
        undone = [m for m, other in before if not _joins(other, edit)]
        if undone and (made[n].replaces or starts_anew(edit.value)):
            text = f"{edit.site} is replaced here, which undoes edit {undone[0] + 1} of this condition"
            names.fault((*key, n), text)
        held = any(other.value == Of(CLEAN) for _, other in before)
        if not edit.holds and (held or carrier(edit.site) in map(carrier, frozen)):
            names.fault((*key, n), f"{edit.site} is frozen and edited in one condition")
        past = [site for site in frozen if carrier(site) != carrier(edit.site)]
        if not edit.holds and not lowering.reach.read.intersection(touched(layout, [edit.site], past)):
            names.fault((*key, n), f"nothing from {edit.site} arrives at what is measured")
    if not names.faults:
        _check_hidden(made, placed, frozen, lowering, key)


def _check_hidden(
    made: Sequence[Made], placed: Sequence[tuple[int, Edit]], frozen: Sequence[Site], lowering: Lowering, key: Key
) -> None:
    """An edit is lost where the others replace everything that it could arrive through."""
    replaced = [(n, edit.site) for n, edit in placed if made[n].replaces and _is_whole(edit)]
    for n in range(len(made)):
        mine = [edit.site for m, edit in placed if m == n and not edit.holds]
        others = [*frozen, *(site for m, site in replaced if m != n)]
        arriving = [one for one in mine if _arrives(one, others, lowering)]
        if mine and not arriving:
            text = f"the other edits of this condition replace all that {mine[0]} could change"
            lowering.names.fault((*key, n), text)


def _arrives(site: Site, replaced: Sequence[Site], lowering: Lowering) -> bool:
    past = [other for other in replaced if carrier(other) != carrier(site)]
    return not lowering.reach.read.isdisjoint(touched(lowering.layout, [site], past))


def _is_whole(edit: Edit) -> bool:
    """Is nothing left of what stood there?"""
    return not edit.places and not isinstance(edit.value, Rebuilt)


def _in_place(one: Made) -> Sequence[Edit]:
    """What is edited in the condition's own run."""
    edits = one.versions[0].edits
    return [Edit(site, Sum((Current(),))) for site in one.through] if one.through else edits


def as_one(edits: Iterable[Edit]) -> list[Edit]:
    """Paths into one port are one edit: the port reads a stream in which all their sources are changed."""
    found: list[Edit] = []
    for edit in edits:
        number = next((n for n, other in enumerate(found) if _joins(other, edit)), None)
        if number is None:
            found.append(edit)
        else:
            changes = (*_changes(found[number]), *_changes(edit))
            found[number] = replace(edit, value=Rebuilt(Current(), changes))
    return found


def _joins(one: Edit, other: Edit) -> bool:
    """Are both paths into the same port, at the same places, from different sources?"""
    sources = [{node for node, _ in _changes(edit)} for edit in (one, other)]
    return (one.site, one.places) == (other.site, other.places) and all(sources) and sources[0].isdisjoint(sources[1])


def _changes(edit: Edit) -> tuple[tuple[Node, Value], ...]:
    """The sources of a port that a path edit changes."""
    value = edit.value
    return value.changes if isinstance(value, Rebuilt) and value.rest == Current() and not value.recomputed else ()


def _meet(one: Edit, other: Edit) -> bool:
    """Are the two made at one place? What only the examples know (where a span is) is left to them: `check_apart`."""
    if carrier(one.site) != carrier(other.site):
        return False
    return not one.places or not other.places or not set(one.places).isdisjoint(other.places)
