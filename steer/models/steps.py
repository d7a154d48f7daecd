"""A forward pass as named steps: what a schedule needs to know of a model, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from steer.anatomy.nodes import Site


class Steps(Protocol):
    """The steps of a forward pass in order, and where it meets each site."""

    @property
    def names(self) -> Sequence[str]: ...
    def hook(self, site: Site) -> str: ...  # which hook carries a site, for all heads of its block at once
    def step(self, site: Site) -> str: ...  # the step in which a pass meets it
    def order(self, site: Site) -> tuple[int, int]: ...  # sites in the order in which a pass meets them
    def given(self, start: str, stop: str | None) -> Mapping[str, str]: ...  # field of the state -> hook that holds it
