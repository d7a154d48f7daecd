"""Lowering of interventions that change a variable of the task: what steers, beside its control and its ceiling."""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.names import Node, Shape, Site
from steer.anatomy.resolve import Key
from steer.base.dice import Dice
from steer.plan.plan import Counterpart, Edit, Put, Rebuild, Run, Swapped, make_run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import PositionSwap, Steer

BEFORE, CONTROL, CEILING = "before", "control", "ceiling"
POSITIONS = Node("enc.pos")


def steer_runs(recipe: Steer, lowering: Lowering) -> list[Run]:
    """Each set of sites, then as many others (the control), then the counterpart itself (the ceiling)."""
    context = lowering.context
    check_selection(recipe, lowering, "steering")
    exchange = recipe.task.exchange
    if recipe.by == "positions" and (exchange is None or recipe.variable != exchange.variable):
        changed = f"change the {exchange.variable}, not the" if exchange else "do not change the"
        context.fault(("by",), f"exchanged positions {changed} {recipe.variable}")
    sets = {one.name: _sites(recipe, lowering, number) for number, one in enumerate(recipe.sets)}
    for number, one in enumerate(recipe.sets):  # `$role:any` without a head: not an intervention that does nothing
        if not sets[one.name] and not context.faults:
            context.fault(("sets", number, "sites"), "no head of this checkpoint plays these roles")
    names = [one.name for one in recipe.sets]
    for number, name in enumerate(names):
        if name in (BEFORE, CONTROL, CEILING) or name in names[:number]:
            context.fault(("sets", number, "name"), f"{name!r} is taken: conditions need names of their own")
    if recipe.control is not None and recipe.control not in sets:
        context.fault(("control",), f"no set is called {recipe.control!r}; there are: {', '.join(sets)}")
    if context.faults:
        return []
    if recipe.control is not None:
        wanted = sets[recipe.control]
        sets[CONTROL] = others(context.shape, wanted, Dice(recipe.seed, CONTROL))
        if len(sets[CONTROL]) < len(wanted):
            text = (
                f"only {len(sets[CONTROL])} of {len(wanted)} sites have another head in their block that plays no role"
            )
            context.fault(("control",), text)
            return []
    runs = [lowering.run(name, _edits(recipe, context.shape, sites)) for name, sites in sets.items()]
    whole = Put(Site(Node("enc.tok")), Counterpart())  # every token of the counterpart: its own run
    return [*runs, make_run(context.shape, CEILING, [whole], lowering.reads, CEILING)]


def _sites(recipe: Steer, lowering: Lowering, number: int) -> list[Site]:
    key: Key = ("sets", number, "sites")
    if recipe.by == "counterpart":
        named = lowering.context.sites(key, recipe.sets[number].sites)
        lowering.check_places(named)
    else:
        named = lowering.context.ports(key, recipe.sets[number].sites)
        check_positions(lowering, key, named)
    return lowering.reach.sites(key, named)


def _edits(recipe: Steer, shape: Shape, sites: list[Site]) -> list[Edit]:
    if recipe.by == "counterpart":
        return [Put(site, Counterpart(), recipe.places) for site in sites]
    assert recipe.task.exchange is not None
    return swap_edits(shape, sites, *recipe.task.exchange.places, recipe.places)


def others(shape: Shape, sites: Sequence[Site], dice: Dice) -> list[Site]:
    """For each head another one of its block that is not among these and plays no role, at the same port."""
    used = {site.node for site in sites} | {node for _, players in shape.roles for node in players}
    found: list[Site] = []
    for site in sites:
        free = [
            Site(node, site.port)
            for node in shape.all_heads
            if (node.kind, node.layer) == (site.node.kind, site.node.layer) and node not in used
        ]
        free = [one for one in free if one not in found]
        if site.node.is_head and free:
            found.append(dice.choice(free))
    return found


def check_exchange(recipe: PositionSwap, lowering: Lowering) -> None:
    """The task must know what an exchange of these two places does."""
    exchange = recipe.task.exchange
    if exchange is None:
        text = f"the task {recipe.task.name!r} has no two tokens whose positions can be exchanged"
        lowering.context.fault(("kind",), text)
    elif set(recipe.tokens) != set(exchange.places):
        places = " and ".join(map(str, exchange.places))
        lowering.context.fault(("tokens",), f"must be {places}: {exchange.reason}")
    check_selection(recipe, lowering, "a swap")


def check_selection(recipe: PositionSwap | Steer, lowering: Lowering, who: str) -> None:
    """Only examples of which something can be changed."""
    needed = recipe.task.needed
    for key, value in needed.keys.items():
        if getattr(recipe.episodes, key) != value:
            lowering.context.fault(("episodes", key), f"{who} needs {needed.text}")


def check_positions(lowering: Lowering, key: Key, ports: Sequence[Site]) -> None:
    for port in ports:
        if POSITIONS not in lowering.shape.sources(port):
            lowering.context.fault(key, f"{port} does not read the prompt's positions", port)
    lowering.check_places(ports)


def swap_edits(shape: Shape, ports: Sequence[Site], first: int, second: int, places: tuple[int, ...]) -> list[Edit]:
    """Two tokens' position embeddings exchanged, as seen by these ports."""
    change = (POSITIONS, Swapped(first, second))
    # A stream that is complete only after the first of these ports has been changed by it already.
    first_step = min(shape.steps.index(_project_step(port)) for port in ports)
    return [
        Rebuild(port, "current" if _stream_step(shape, port) > first_step else "clean", (change,), places)
        for port in ports
    ]


def _project_step(port: Site) -> str:
    """The step that computes a port (or an MLP) from its stream."""
    return f"{port.path.rpartition('.')[0]}.{'project' if port.node.is_head else 'compute'}"


def _stream_step(shape: Shape, port: Site) -> int:
    """The step at which the stream that a port reads is complete."""
    return shape.steps.index("enc.norm" if port.node.kind == "dec-cross" else _project_step(port))
