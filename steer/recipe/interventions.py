"""One edit of an `intervene` recipe: what it may say, and the plan's edits that it means.

`sites` take one of: `ablate`, `from` (another run's value), `add` (a direction), `scale`, `project` (a subspace),
`freeze`. With `into` the sites are nodes, and the edit is made on what these ports alone read of them, as path patching
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, create_model, model_validator
from typing_extensions import Self

from steer.anatomy.layout import touched
from steer.anatomy.named import AnySites, Ports, Sites
from steer.anatomy.nodes import BETWEEN_TOKENS, Site
from steer.base.errors import Key
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.plan.plan import (
    CLEAN,
    COUNTERPART,
    Current,
    Edit,
    Mean,
    Of,
    Rebuilt,
    Resampled,
    Scaled,
    Spot,
    Sum,
    Value,
    Within,
    Zero,
)
from steer.recipe.edits import exchange
from steer.recipe.lowering import Lowering
from steer.recipe.meant import differing
from steer.recipe.schema import Spots, TwoSpots
from steer.recipe.stored import read_used
from steer.results.directions import Direction, random_like

WAYS = ("ablate", "from", "add", "scale", "project", "freeze")
REPLACING = ("ablate", "from", "freeze")  # what stood there before is gone
Finite: TypeAlias = Annotated[float, Field(ge=-1e6, le=1e6)]
Scales: TypeAlias = Annotated[
    tuple[Finite, ...],
    AT_LEAST_ONE,
    BeforeValidator(
        lambda given: given if isinstance(given, list | tuple) else [given], json_schema_input_type=float | list[float]
    ),
]


class Added(Strict):
    """A direction times a scale; several scales are several conditions."""

    direction: Annotated[str, Field(min_length=1, description="a file of `steer direction`, relative to the recipe")]
    scale: Scales = (1.0,)
    row: Annotated[int, Field(ge=0, description="which row, if the file has several")] = 0


class Projected(Strict):
    """A subspace emptied, or filled from another run."""

    subspace: Annotated[str, Field(min_length=1, description="a file of `steer align` or `steer direction`")]
    inside: Annotated[Literal["zero", "mean", "counterpart"], Field(description="what stands there instead")] = "zero"


class Recorded(Strict):
    """What a site has in another condition of the recipe."""

    condition: Annotated[str, Field(min_length=1, description="name of a condition that stands before this one")]


class _Said(Strict):
    sites: Annotated[Sites, Field(description="what is edited; with `into`, the nodes whose write is")]
    places: Annotated[Spots, Field(description="edit only these places of the sequence (default: all of them)")] = ()
    ablate: Literal["mean", "zero", "resample", "counterpart"] | None = None
    add: Added | None = None
    scale: Finite | None = None
    project: Projected | None = None
    freeze: Annotated[Literal[True] | None, Field(description="hold at the clean value")] = None
    into: Annotated[Ports, Field(description="only what these ports read of the sites, a head's q, k or v each")] = ()
    through: Annotated[
        AnySites, Field(description="the edit is made in a run of its own; of that only these sites are taken over")
    ] = ()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        said = [way for way in WAYS if getattr(self, way) is not None]
        if len(said) != 1:
            raise ValueError(f"give one of {', '.join(WAYS)}" + (f", not {' and '.join(said)}" if said else ""))
        return self


class Between(Strict):
    """As if two tokens had each other's position."""

    positions: TwoSpots


# `from` is a word of Python's own: a class cannot spell a field so, `create_model` can.
_FROM: Any = Annotated[
    Literal["counterpart", "positions"] | Recorded | Between | None,
    Field(description="the counterpart's value; another condition's; as if two tokens had each other's position"),
]
_FIELDS: Any = {"from": (_FROM, None)}
Intervention: Any = create_model("Intervention", __base__=_Said, **_FIELDS)


@dataclass(frozen=True)
class Version:
    """One of several scales of an edit."""

    edits: tuple[Edit, ...]
    scale: float | None = None  # where there are several
    random: Callable[[int], tuple[Edit, ...]] | None = None  # draw -> the same with something random of the same size


@dataclass(frozen=True)
class Made:
    versions: tuple[Version, ...]
    replaces: bool = False
    through: tuple[Site, ...] = ()  # what is taken over of a run with this edit alone; empty: the edit itself holds
    recorded: tuple[str, tuple[Site, ...]] | None = None  # a condition, and what is taken from its run

    @property
    def several(self) -> bool:
        return len(self.versions) > 1


NOTHING = Made((Version(()),))


def make(said: Any, lowering: Lowering, key: Key, variable: str | None) -> Made:
    """The plan's edits; what does not fit is noted as a fault."""
    made = _made(said, lowering, key, variable)
    if not said.through or lowering.names.faults:
        return made
    through = lowering.names.sites((*key, "through"), said.through)
    edited = [edit.site for edit in made.versions[0].edits]
    for site in through:
        if site in edited or site not in touched(lowering.layout, edited):
            text = f"{site} does not come after {', '.join(map(str, edited[:3]))}: nothing of the edit goes through it"
            lowering.names.fault((*key, "through"), text, site)
    return replace(made, through=tuple(through), replaces=True)


def _made(said: Any, lowering: Lowering, key: Key, variable: str | None) -> Made:
    way = next(name for name in WAYS if getattr(said, name) is not None)
    if "counterpart" in (said.ablate, getattr(said, "from"), said.project and said.project.inside) and not variable:
        lowering.names.fault((*key, way), "a counterpart needs `variable`: in what do they differ?")
    if getattr(said, "from") == "positions" or isinstance(getattr(said, "from"), Between):
        return _exchanged(said, lowering, key)
    into = lowering.names.ports((*key, "into"), said.into) if said.into else []
    sites = _sources(said, lowering, key, into) if said.into else _sites(said, lowering, key)
    lowering.check_places(sites, said.places, (*key, "places"))
    sites = differing(said, lowering, (*key, "sites"), sites) if not lowering.names.faults else []
    if lowering.names.faults:
        return NOTHING
    match way:
        case "add":
            return _added(said, lowering, key, sites, into)
        case "project":
            return _projected(said, lowering, key, sites, into)
        case _:
            value = _value(said, lowering)
            made = (Version(tuple(_edits(said, lowering, sites, into, value))),)
            return Made(made, way in REPLACING, recorded=_recorded(said, sites))


def _recorded(said: Any, sites: Sequence[Site]) -> tuple[str, tuple[Site, ...]] | None:
    given = getattr(said, "from")
    return (given.condition, tuple(sites)) if isinstance(given, Recorded) else None


def recording(condition: str) -> str:
    """The name of the run whose values other conditions take."""
    return f"{condition}, for others"


def _sites(said: Any, lowering: Lowering, key: Key) -> list[Site]:
    named = lowering.names.sites((*key, "sites"), said.sites)
    lowering.names.wanted((*key, "sites"), named)
    between = [site for site in named if site.port in BETWEEN_TOKENS]
    if between and (said.add or said.project):
        lowering.names.fault((*key, "sites"), f"{between[0]} is between tokens and has no features", between[0])
    elif between and said.ablate in ("mean", "resample"):
        text = f"{between[0]} is between the tokens of one example: no other example has a value for it"
        lowering.names.fault((*key, "sites"), f"{text} (zero, counterpart)", between[0])
    written = [site for site in named if site.port == "out"]
    if written and (said.add or said.project or said.scale is not None):
        text = f"{written[0]} is computed from z: edit {written[0].node}.z, or the stream"
        lowering.names.fault((*key, "sites"), text, written[0])
    return named


def _sources(said: Any, lowering: Lowering, key: Key, into: Sequence[Site]) -> list[Site]:
    """The sites from which the named nodes' writes are computed; each must feed each port directly."""
    nodes = lowering.names.sources((*key, "sites"), said.sites, list(into))
    writes = {node: lowering.layout.write(node) for node in nodes}
    lowering.names.rename((*key, "sites"), writes)
    return list(writes.values())


def _edits(said: Any, lowering: Lowering, sites: Sequence[Site], into: Sequence[Site], value: Value) -> list[Edit]:
    if not into:
        return [Edit(site, value, said.places) for site in sites]
    changes = tuple((site.node, value) for site in sites)
    return [Edit(port, Rebuilt(Current(), changes), said.places) for port in into]


def _value(said: Any, lowering: Lowering) -> Value:
    if said.scale is not None:
        return Scaled(Current(), said.scale)
    if said.freeze:
        return Of(CLEAN)
    if isinstance(getattr(said, "from"), Recorded):
        return Of(recording(getattr(said, "from").condition))
    match said.ablate:
        case "zero":
            return Zero()
        case "mean":
            return Mean()
        case "resample":
            return Resampled(lowering.recipe.seed)
        case _:
            return Of(COUNTERPART)


def _exchanged(said: Any, lowering: Lowering, key: Key) -> Made:
    ports = lowering.names.ports((*key, "sites"), said.sites)
    lowering.check_positions((*key, "sites"), ports, said.places, (*key, "places"))
    two = _two_places(getattr(said, "from"), lowering, (*key, "from"))
    if two is None or lowering.names.faults:
        return NOTHING
    return Made((Version(tuple(exchange(lowering.layout, ports, two, said.places))),))


def _two_places(given: Any, lowering: Lowering, key: Key) -> tuple[Spot, Spot] | None:
    """The two that are named, or else the task's own."""
    if isinstance(given, Between):
        lowering.check_exchanged((*key, "positions"), given.positions)
        return given.positions
    if (known := lowering.recipe.task.exchange) is not None:
        return known.places
    text = f"the task {lowering.recipe.task.name!r} has no two tokens whose positions can be exchanged"
    lowering.names.fault(key, f"{text}; say which (from: {{positions: [1, last]}})")
    return None


def _added(said: Any, lowering: Lowering, key: Key, sites: Sequence[Site], into: Sequence[Site]) -> Made:
    spot: Key = (*key, "add", "direction")
    from_file = read_used(said.add.direction, lowering, spot, sites)
    if from_file is None:
        return NOTHING
    if said.add.row >= len(from_file.rows):
        lowering.names.fault((*key, "add", "row"), f"the file has {len(from_file.rows)} rows, counted from 0")
        return NOTHING
    one = Direction(from_file.rows[said.add.row : said.add.row + 1], from_file.about)
    if not one.rows.any():
        lowering.names.fault(spot, f"{said.add.direction}: row {said.add.row} holds zeros alone: nothing is added")

    def edits(name: str, direction: Direction, scale: float) -> tuple[Edit, ...]:
        stored = lowering.store(name, direction.rows[0])
        return tuple(_edits(said, lowering, sites, into, Sum((Current(), Scaled(stored, scale)))))

    def version(scale: float) -> Version:
        def drawn(draw: int) -> tuple[Edit, ...]:
            return edits(f"random {draw + 1}", random_like(one, draw), scale)

        several = scale if len(said.add.scale) > 1 else None
        return Version(edits(said.add.direction, one, scale), several, drawn if scale else None)

    return Made(tuple(map(version, said.add.scale)))


def _projected(said: Any, lowering: Lowering, key: Key, sites: Sequence[Site], into: Sequence[Site]) -> Made:
    from_file = read_used(said.project.subspace, lowering, (*key, "project", "subspace"), sites)
    if from_file is None:
        return NOTHING
    if from_file.rank < len(from_file.rows):
        span = f"{len(from_file.rows)} rows span {from_file.rank} dimensions"
        text = f"{said.project.subspace}: {span}: they are no basis"
        lowering.names.fault((*key, "project", "subspace"), text)
    known: dict[str, Value] = {"zero": Zero(), "mean": Mean(), "counterpart": Of(COUNTERPART)}
    inside = known[said.project.inside]

    def edits(name: str, subspace: Direction) -> tuple[Edit, ...]:
        stored = lowering.store(name, subspace.basis)
        return tuple(_edits(said, lowering, sites, into, Within(stored, inside, Current())))

    def drawn(draw: int) -> tuple[Edit, ...]:
        return edits(f"random {draw + 1}", random_like(from_file, draw))

    return Made((Version(edits(said.project.subspace, from_file), random=drawn),))
