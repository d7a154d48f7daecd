"""Tensors with what their axes mean: which example, which token, how many of them are real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from steer.base.errors import SteerError, nearest, unknown
from steer.base.json import Json
from steer.base.shown import Card, Shown, counted

if TYPE_CHECKING:
    from torch import Tensor

Tokens = tuple[tuple[str, ...], ...]  # of each example


@dataclass(frozen=True)
class Axes:
    """What the axes of some tensors mean. Sequences are the model's: `prompt` and `answer`, or one that has both.

    `tokens`: sequence -> for each example the tokens along it, as many as are real; behind them stands padding.
    `along`: tensor -> the sequence that each of its axes runs along; empty for heads and features.
    """

    prompts: tuple[str, ...]
    answers: Tokens
    tokens: Mapping[str, Tokens]
    along: Mapping[str, tuple[str, ...]]

    def lengths(self, sequence: str) -> tuple[int, ...]:
        return tuple(map(len, self.tokens[sequence]))

    def to_json(self) -> Json:
        return asdict(self)

    @staticmethod
    def from_json(data: Any, place: str) -> Axes:
        try:
            tokens = {name: _texts(lists) for name, lists in data["tokens"].items()}
            along = {name: tuple(map(str, axes)) for name, axes in data["along"].items()}
            return Axes(tuple(map(str, data["prompts"])), _texts(data["answers"]), tokens, along)
        except (KeyError, TypeError, AttributeError) as error:
            raise SteerError(f"{place}: does not say what its axes mean as `steer run` does") from error


def _texts(lists: Any) -> Tokens:
    return tuple(tuple(map(str, texts)) for texts in lists)


@dataclass(frozen=True, repr=False)
class Activations(Shown, Mapping[str, "Tensor"]):
    """Activations by site, examples first, with prompts, answers, tokens and lengths beside them.

    `found["dec-cross-1.4.k"]` is the padded tensor; `found.at("dec-cross-1.4.k", 3)` is the third's part of it, only
    real tokens, and `found.tokens("dec-cross-1.4.k", 3)` what stands there. A site that was asked for by another name
    (`$output.k`) is found by that as well.
    """

    checkpoint: str
    tensors: Mapping[str, Tensor] = field(repr=False)
    axes: Axes = field(repr=False)
    names: Mapping[str, str] = field(default_factory=dict, repr=False)  # other names of sites

    def __getitem__(self, site: str) -> Tensor:
        return self.tensors[self._site(site)]

    def _site(self, name: str) -> str:
        site = self.names.get(name, name)
        if site not in self.tensors:
            close = nearest(str(name), self.tensors) or list(self.tensors)
            raise KeyError(f"no activations of {name!r} were taken; there are {', '.join(close)}")
        return site

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    @property
    def prompts(self) -> tuple[str, ...]:
        return self.axes.prompts

    @property
    def answers(self) -> Tokens:
        """What the decoder was fed, example by example."""
        return self.axes.answers

    def sequence(self, site: str) -> str:
        """The sequence that a site's tokens belong to."""
        return next(filter(None, self.axes.along[self._site(site)]))

    def tokens(self, site: str, example: int) -> tuple[str, ...]:
        return self.axes.tokens[self.sequence(site)][self._example(example)]

    def lengths(self, site: str) -> tuple[int, ...]:
        return self.axes.lengths(self.sequence(site))

    def at(self, site: str, example: int) -> Tensor:
        """One example's part without padding."""
        whole, along = self[site][self._example(example)], self.axes.along[self._site(site)]
        real = [slice(len(self.axes.tokens[name][example])) if name else slice(None) for name in along]
        return whole[tuple(real[1:])]

    def _example(self, number: int) -> int:
        if not isinstance(number, int) or not 0 <= number < len(self.prompts):
            raise SteerError(f"there are examples 0 to {len(self.prompts) - 1}, not {number!r:.40}")
        return number

    def card(self) -> Card:
        rows = [(name, str(tuple(tensor.shape)), self._axes(name)) for name, tensor in self.tensors.items()]
        title = f"activations of {self.checkpoint}: {counted(len(self.prompts), 'prompt')}"
        return Card(title, (), ("site", "shape", "axes"), rows)

    def _axes(self, name: str) -> str:
        return ", ".join(["prompts", *(sequence or "features" for sequence in self.axes.along[name][1:])])


def activations_of(checkpoint: str, condition: str, tensors: Mapping[str, Tensor], axes: Axes | None) -> Activations:
    """A result's tensors of one condition (`condition/site`)."""
    if axes is None:
        raise SteerError("this result has no tensors with labelled axes: the recipe's `tensors` names sites to keep")
    conditions = list(dict.fromkeys(name.rpartition("/")[0] for name in tensors))
    if condition not in conditions:
        raise SteerError(unknown("condition with tensors", str(condition), conditions))
    sites = {name.rpartition("/")[2]: name for name in tensors if name.rpartition("/")[0] == condition}
    along = {site: axes.along[name] for site, name in sites.items()}
    by_site = {site: tensors[name] for site, name in sites.items()}
    return Activations(checkpoint, by_site, replace(axes, along=along))
