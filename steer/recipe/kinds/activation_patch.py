"""activation-patch: the values of some sites, one site and one place at a time, taken from a counterpart's run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.named import Sites
from steer.anatomy.nodes import Site
from steer.base.fields import Fields, one_of, refined
from steer.base.yaml import AT_LEAST_ONE
from steer.plan.plan import CLEAN, COUNTERPART, EACH, Edit, Of, Run, Spot
from steer.recipe.edits import as_counterpart
from steer.recipe.lowering import Lowering
from steer.recipe.schema import Figures, Recipe, Spots
from steer.results.rows import End
from steer.tasks.task import Example, Task

ALL = "all"


class ActivationPatch(Recipe):
    """Each of these sites, at each of these places, one at a time, takes the value that it has in another run.

    `into: clean`: the run on the prompt takes values of the run on its counterpart (noising). `into: counterpart`: the
    run on the counterpart takes values of the run on the prompt (denoising). Answers are the prompt's in both.
    """

    clean_end: ClassVar[End] = "nothing"
    ablates: ClassVar[bool] = False
    predicts: ClassVar[bool] = True
    goes_from_site_to_site: ClassVar[bool] = True
    place_words: ClassVar[tuple[str, ...]] = (ALL, EACH)
    kind: Literal["activation-patch"]
    variable: Annotated[str, Field(description="which counterpart the values are exchanged with")]
    sites: Annotated[Sites, Field(description="what is patched, one after the other; globs allowed")]
    places: Annotated[
        Spots,
        AT_LEAST_ONE,
        Field(description="one after the other: `all` together, `each` on its own, `last`, numbers, names of spans"),
    ] = (ALL,)
    into: Annotated[
        Literal["clean", "counterpart"], Field(description="the run that is changed; the other one lends its values")
    ] = "clean"
    figure: Figures = ("heatmap",)

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        return {"variable": refined(cls, "variable", one_of(task.variables))}

    def runs(self, lowering: Lowering) -> list[Run]:
        names, key = lowering.names, ("sites",)
        named = names.sites(key, self.sites)
        lowering.check_selection("a counterpart")
        lowering.check_places(named)
        names.wanted(key, named)
        sites = lowering.reach.sites(key, lowering.differing(key, named, lambda site: site)) if named else []
        if names.faults:
            return []
        whole = (as_counterpart(lowering.layout),)
        end = Run(f"the {self._other} run itself", whole, lowering.reads, self._other, end="everything")
        return [end, *(run for site in sites for run in self._patches(lowering, site))]

    def _patches(self, lowering: Lowering, site: Site) -> Iterator[Run]:
        alone = self.places == (ALL,)
        for word, places in self._spots(lowering, site):
            name = str(site) if alone else f"{site} at {word}"
            edits = (*lowering.freeze, Edit(site, Of(COUNTERPART), places))
            yield Run(name, edits, lowering.reads, name, site=str(site), place=word)

    def _spots(self, lowering: Lowering, site: Site) -> Iterator[tuple[str, tuple[Spot, ...]]]:
        """What each patch of a site is called by, and the places that it is made at; none: at all."""
        by_name: dict[str, tuple[Spot, ...]] = {}
        for spot in self.places:
            if spot == ALL:
                by_name[ALL] = ()
            elif spot != EACH or lowering.lengths is None:  # before the examples are known, `each` stands for them
                by_name[str(spot)] = (spot,)
            else:
                count = lowering.lengths[lowering.layout.sequence(site)]
                by_name |= {str(place): (place,) for place in range(1, count + 1)}
        yield from by_name.items()

    @property
    def _other(self) -> str:
        return CLEAN if self.into_counterpart else COUNTERPART

    @property
    def counts_places(self) -> bool:
        return EACH in self.places

    @property
    def into_counterpart(self) -> bool:
        return self.into == COUNTERPART

    @property
    def clean_name(self) -> str:
        return self.into

    @property
    def own_condition(self) -> str:
        return CLEAN

    @property
    def changed_variable(self) -> str | None:
        return self.variable

    def counterparts(self, examples: Sequence[Example]) -> list[Example | None]:
        return [self.task.lender(example, self.variable) for example in examples]
