"""Every kind of experiment by hand, from the recipe's words.

A condition says what is done to one episode: which sites get which values. No plan and no engine: each run is a whole
forward pass (`by_hand_net`), and streams are summed from all their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from by_hand_net import BLOCKS, Edits, Net, Values, crosses, forward, ids
from torch import Tensor

from steer.tasks.compositional.vocabulary import TOKENS


@dataclass
class Trial:
    """One episode at hand: its tokens, its clean run, what stands in for ablated values, and its counterpart."""

    net: Net
    prompt: Tensor
    output: Tensor  # SOS, then what has been said
    stand_in: Callable[[str, Tensor], Tensor] = lambda site, clean: torch.zeros_like(clean)
    other: Tensor | None = None  # the counterpart's prompt
    clean: Values = field(init=False)

    def __post_init__(self) -> None:
        self.clean = self.run({})

    def run(self, edits: Edits) -> Values:
        return forward(self.net, self.prompt, self.output, edits)

    def ablated(self, site: str) -> Tensor:
        return self.stand_in(site, self.clean[site])


class Lent(Trial):
    """What is ablated has the value of the run on the counterpart, in which the same has been said."""

    def ablated(self, site: str) -> Tensor:
        assert self.other is not None
        return forward(self.net, self.other, self.output, {})[site]


Condition = Callable[[Trial], Edits]


def written_at(node: str) -> str:
    """The site that holds what a node adds to the stream."""
    return f"{node}.out" if node.rpartition("-")[0] in BLOCKS else node


def put(value: Tensor, places: Sequence[int] = ()) -> Callable[[Tensor, Values], Tensor]:
    """A site's value replaced, at some places of the sequence (from 1) or everywhere."""

    def change(old: Tensor, seen: Values) -> Tensor:
        rows = [row for row in range(len(old)) if not places or row + 1 in places]
        new = old.clone()
        new[rows] = value[rows]
        return new

    return change


def rebuilt(trial: Trial, port: str, clean: Iterable[str], given: Mapping[str, Tensor] | None = None) -> Tensor:
    """What a port reads when these of its sources are clean, some are given, and all others are ablated."""
    kept, given = set(clean), given or {}

    def write(source: str) -> Tensor:
        if source in given:
            return given[source]
        site = written_at(source)
        return trial.clean[site] if source in kept else trial.ablated(site)

    return trial.net.read(port, trial.net.stream(port, write))


def frozen(trial: Trial, sites: Iterable[str]) -> Edits:
    return {site: put(trial.clean[site]) for site in sites}


def keep_only_one(
    targets: Sequence[str], source: str | None, places: Sequence[int] = (), freeze: Sequence[str] = ()
) -> Condition:
    """All direct sources of the targets are ablated but one (None: all of them)."""
    kept = [] if source is None else [source]
    return lambda trial: {**frozen(trial, freeze), **{t: put(rebuilt(trial, t, kept), places) for t in targets}}


def ablate_only_one(
    targets: Sequence[str], source: str | None, places: Sequence[int] = (), freeze: Sequence[str] = ()
) -> Condition:
    """One direct source of the targets is ablated (None: all of them)."""

    def edits(trial: Trial) -> Edits:
        left = {t: [s for s in trial.net.sources(t) if s != source and source is not None] for t in targets}
        return {**frozen(trial, freeze), **{t: put(rebuilt(trial, t, left[t]), places) for t in targets}}

    return edits


def chained(chain: Sequence[str], first: Condition, others: str, freeze: Sequence[str] = ()) -> Condition:
    """What reaches the last port through the chain; `first` is what is done to its first port."""

    def edits(trial: Trial) -> Edits:
        now: Edits = {**frozen(trial, freeze), **first(trial)}
        for port, after in pairwise(chain):
            node = port if "mlp" in port else port.rpartition(".")[0]
            passed = trial.run(now)[written_at(node)]
            left = [s for s in trial.net.sources(after) if others == "clean"]
            now = {**frozen(trial, freeze), after: put(rebuilt(trial, after, left, {node: passed}))}
        return now

    return edits


def unchanged(port: str) -> Condition:
    """The first port of a chain as it is."""
    return lambda trial: {port: put(trial.clean[port])}


def ablate(nodes: Iterable[str], places: Sequence[int] = (), freeze: Sequence[str] = ()) -> Condition:
    """These nodes ablated in the whole forward pass."""
    sites = [f"{node}.z" if written_at(node) != node else node for node in nodes]
    return lambda trial: {**{s: put(trial.ablated(s), places) for s in sites}, **frozen(trial, freeze)}


def exchange_positions(ports: Sequence[str], places: Sequence[int] = (), freeze: Sequence[str] = ()) -> Condition:
    """The first and the third token's position embeddings exchanged, as these ports see them."""

    def edits(trial: Trial) -> Edits:
        position = trial.clean["enc.pos"]
        exchanged = position.clone()
        exchanged[0], exchanged[2] = position[2], position[0]

        def seen_so(port: str) -> Callable[[Tensor, Values], Tensor]:
            def change(old: Tensor, seen: Values) -> Tensor:
                stream = seen[stream_site(trial.net, port)] + (exchanged - position)
                return put(trial.net.read(port, stream), places)(old, seen)

            return change

        return {**{port: seen_so(port) for port in ports}, **frozen(trial, freeze)}

    return edits


def stream_site(net: Net, port: str) -> str:
    """Where the stream that an encoder's port, or a key or value of cross-attention, reads can be seen."""
    if crosses(port):
        return f"enc-resid-{net.encoder_layers - 1}.post"
    layer = port.partition(".")[0].rpartition("-")[2]
    return f"enc-resid-{layer}.{'mid' if 'mlp' in port else 'pre'}"


def borrow(sites: Iterable[str], places: Sequence[int] = (), freeze: Sequence[str] = ()) -> Condition:
    """These sites have the values of the run on the counterpart prompt, with the same tokens said so far."""

    def edits(trial: Trial) -> Edits:
        assert trial.other is not None
        theirs = forward(trial.net, trial.other, trial.output, {})
        return {**frozen(trial, freeze), **{site: put(theirs[site], places) for site in sites}}

    return edits


def nothing(trial: Trial) -> Edits:
    return {}


def say(trial: Trial, condition: Condition, longest: int = 6) -> list[str]:
    """The answer that the model writes itself, the condition's interventions on at every step; EOS closes it."""
    said: list[str] = []
    while len(said) < longest and "EOS" not in said:
        now = type(trial)(trial.net, trial.prompt, ids(["SOS", *said]), trial.stand_in, trial.other)
        said.append(TOKENS[int(now.run(condition(now))["logits"][-1].argmax())])
    return said


# What stands in for ablated values


def means(trials: Sequence[Trial], over: str = "position") -> Callable[[str, Tensor], Tensor]:
    """The mean of a site over episodes: at each position over those that reach it, or over all tokens."""
    known: dict[str, tuple[list[Tensor], Tensor]] = {}

    def table(site: str) -> tuple[list[Tensor], Tensor]:
        values = [trial.clean[site] for trial in trials]
        at = [torch.stack([v[p] for v in values if len(v) > p]).mean(0) for p in range(max(map(len, values)))]
        return at, torch.cat(values).mean(0)

    def stand_in(site: str, clean: Tensor) -> Tensor:
        if site not in known:
            known[site] = table(site)
        at, pooled = known[site]
        return torch.stack([at[p] if over == "position" and p < len(at) else pooled for p in range(len(clean))])

    return stand_in


def of_donor(donor: Trial) -> Callable[[str, Tensor], Tensor]:
    """Another episode's values, read round and round where it is the shorter one."""
    return lambda site, clean: donor.clean[site][torch.arange(len(clean)) % len(donor.clean[site])]
