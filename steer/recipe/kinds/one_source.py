"""keep-only-one and ablate-only-one: one direct source of a target at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.named import Nodes, Ports
from steer.plan.plan import Edit, Rebuilt, Run
from steer.recipe.edits import one_link
from steer.recipe.lowering import Lowering
from steer.recipe.schema import EVERYTHING, OnScale


class OneSource(OnScale):
    """A sweep over the direct sources of a target."""

    goes_from_site_to_site: ClassVar[bool] = True
    by_paths: ClassVar[bool] = True
    keep: ClassVar[bool]  # the one source, or all others
    target: Annotated[Ports, Field(description="a head's q, k or v")]
    sources: Annotated[Nodes, Field(description="heads, MLPs, embeddings; globs allowed")]

    def runs(self, lowering: Lowering) -> list[Run]:
        return one_at_a_time(self, lowering, self.keep)


class KeepOnlyOne(OneSource):
    """All direct sources of the target are ablated but one: is that one sufficient?"""

    keep: ClassVar[bool] = True
    kind: Literal["keep-only-one"]


class AblateOnlyOne(OneSource):
    """One direct source of the target is ablated: is it necessary?"""

    keep: ClassVar[bool] = False
    kind: Literal["ablate-only-one"]


def one_at_a_time(recipe: OneSource, lowering: Lowering, keep: bool) -> list[Run]:
    names = lowering.names
    named = names.ports(("target",), recipe.target)
    names.wanted(("target",), named)
    sources = lowering.ablatable(("sources",), names.sources(("sources",), recipe.sources, named))
    names.wanted(("sources",), sources)
    lowering.check_places(named)
    targets = lowering.reach.sites(("target",), named)
    lowering.reach.check_direct(sources, targets)
    if names.faults:
        return []
    ablated, through = lowering.ablated, lowering.recomputed
    all_ablated = [Edit(target, Rebuilt(ablated, (), through), recipe.places) for target in targets]
    links = {s: [one_link(target, keep, s, ablated, recipe.places, through) for target in targets] for s in sources}
    swept = [replace(lowering.run(str(source), edits), site=str(source)) for source, edits in links.items()]
    return [lowering.run(EVERYTHING, all_ablated, "everything"), *swept]
