"""What figures need beyond rows: attention patterns, scatter plots, histograms and sample answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from steer.base.shown import Card, Shown
from steer.results.rows import CLOSED

Texts: TypeAlias = tuple[str, ...]
Numbers: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Pattern(Shown):
    """A head's attention on one example, and the tokens on both axes."""

    __pydantic_config__ = CLOSED

    head: str
    prompt: str
    answer: Texts  # what was fed in, or what the model wrote
    queries: Texts
    keys: Texts
    weights: tuple[Numbers, ...]  # queries, keys
    condition: str = ""
    expected: Texts = ()
    roles: Texts = ()
    right: tuple[tuple[int, int], ...] = ()  # query and key: where the head's role, or else the task, wants it to look
    kind: Literal["pattern"] = "pattern"

    def card(self) -> Card:
        roles = f" ({', '.join(f'${role}' for role in self.roles)})" if self.roles else ""
        condition = f", {self.condition}" if self.condition else ""
        most = [(query, *self._most(row)) for query, row in zip(self.queries, self.weights, strict=True)]
        pairs = [("prompt", self.prompt), ("answer", " ".join(self.answer))]
        return Card(f"attention of {self.head}{roles}{condition}", pairs, ("from", "most to", "then"), most)

    def _most(self, row: Numbers) -> tuple[str, ...]:
        """The two keys that a query attends to most; places count from 1."""
        top = sorted(range(len(row)), key=lambda place: -row[place])[:2]
        return tuple(f"{self.keys[place]}@{place + 1} {row[place]:.2f}" for place in top)


@dataclass(frozen=True)
class Scatter:
    """Activations of a site in their first two principal components, with the label of each point."""

    __pydantic_config__ = CLOSED

    condition: str
    site: str
    label: str
    tokens: str
    variance: tuple[float, float]  # the share of each component
    centres: dict[str, tuple[float, float]]  # label -> mean of its points
    x: Numbers
    y: Numbers
    labels: Texts
    kind: Literal["scatter"] = "scatter"


@dataclass(frozen=True)
class Sample:
    """Many numbers: their mean, the middle 95 % of them, and how many fall into each bin."""

    __pydantic_config__ = CLOSED

    mean: float
    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Histogram:
    """Inner products of what a head copies from a token with the token's own unembedding row, and with other rows."""

    __pydantic_config__ = CLOSED

    condition: str
    head: str
    tokens: int
    above_null: float  # the share of tokens above 97.5 % of the others
    edges: Numbers
    own: Sample
    others: Sample
    kind: Literal["histogram"] = "histogram"


@dataclass(frozen=True)
class PlaceTokens:
    """The token that stands at each place of some sites' sequence, from the first; `…` where examples differ."""

    __pydantic_config__ = CLOSED

    sites: Texts
    tokens: Texts
    kind: Literal["places"] = "places"


@dataclass(frozen=True)
class Transcript:
    """One answer that the model wrote, beside the right one and the predicted one."""

    __pydantic_config__ = CLOSED

    condition: str
    prompt: str
    written: Texts
    answer: Texts
    counterfactual: Texts = ()
    kind: Literal["transcript"] = "transcript"


Detail: TypeAlias = Annotated[Pattern | Scatter | Histogram | PlaceTokens | Transcript, Field(discriminator="kind")]
