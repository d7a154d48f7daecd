"""The forward pass of a Hugging Face model as named steps, known from its layout alone: no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from steer.anatomy.layout import Block, Layout, Stream
from steer.anatomy.nodes import Site

BLOCKS = {"self": "self_attn", "cross": "cross_attn", "mlp": "mlp"}  # the end of a kind -> the part of a layer
ATTENTION, MLP = ("project", "attend", "mix", "write"), ("compute", "write")
WITHIN_A_STEP = (
    "tok", "pos", "resid", "q_pre", "k_pre", "q", "k", "bias", "scores", "pattern", "v", "z", "out", "post", "memory",
    "final", "logits",
)  # fmt: skip
STEP_OF_HOOK = {
    "q_pre": "project", "k_pre": "project", "q": "attend", "k": "attend", "bias": "attend", "scores": "attend",
    "pattern": "attend", "v": "mix", "z": "write", "out": "write", "post": "write",
}  # fmt: skip
INPUTS = {  # what is left of a block reads, from a step on: field of the state, and the step that reads it
    "project": (("stream", "project"),),
    "attend": (("q", "attend"), ("k", "attend"), ("v", "mix"), ("stream", "write")),
    "mix": (("pattern", "mix"), ("v", "mix"), ("stream", "write")),
    "write": (("written", "write"), ("stream", "write")),
    "compute": (("stream", "compute"),),
}


@dataclass(frozen=True)
class BlockSteps:
    layout: Layout

    @cached_property
    def names(self) -> Sequence[str]:
        steps: list[str] = []
        for stream in self.layout.streams:
            steps.append(f"{stream.name}.embed")
            for block in self._blocks(stream.name):
                steps += [f"{path_of(block)}.{step}" for step in (ATTENTION if block.heads else MLP)]
            steps.append(f"{stream.name}.norm")
        return tuple(steps)

    def _blocks(self, stream: str) -> list[Block]:
        return [block for block in self.layout.blocks if block.writes == stream and block.reads]

    @cached_property
    def _hooks(self) -> dict[Site, str]:
        """Every site that a model has once, and every point of a stream."""
        hooks = {stream.read_as: stream.read_as.node.kind.partition(".")[2] for stream in self.layout.streams}
        hooks[self.layout.logits] = "logits"
        for block in self.layout.blocks:
            for point, name in ((block.at, "resid"), (block.then, "post")):
                if point is not None:
                    hooks[point] = f"{path_of(block)}.{name}"
        return hooks

    def hook(self, site: Site) -> str:
        """The hook that carries a site, for all heads of its block at once."""
        if site in self._hooks:
            return self._hooks[site]
        block = self.layout.block(site.node)
        if not block.reads:
            return f"{block.writes}_embed.{site.node.kind.rpartition('.')[2]}"
        # A head's own write is not computed by the model: it is the head's z times its part of the output projection.
        port = "z" if site.port == "out" else (site.port or "out")
        return f"{path_of(block)}.{port.replace('-', '_')}"

    def step(self, site: Site) -> str:
        """The step in which a site is met."""
        path, _, hook = self.hook(site).rpartition(".")
        if hook == "resid":
            return f"{path}.{'compute' if path.endswith('mlp') else 'project'}"
        if hook in STEP_OF_HOOK:
            return f"{path}.{STEP_OF_HOOK[hook]}"
        if path:
            return path.replace("_", ".")
        return next(f"{s.name}.norm" for s in reversed(self.layout.streams) if site in (s.read_as, self.layout.logits))

    def order(self, site: Site) -> tuple[int, int]:
        """Sites sort in the order in which a forward pass meets them."""
        return self._places[self.step(site)], WITHIN_A_STEP.index(self.hook(site).rpartition(".")[2])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def given(self, start: str, stop: str | None) -> Mapping[str, str]:
        """What a pass that starts midway must be given: field of its state -> hook of the clean run that holds it."""
        taken = self.names[self._places[start] : self._places[stop] if stop else None]
        path, _, step = start.rpartition(".")
        given = {field: _holder(path, field) for field, by in INPUTS.get(step, ()) if f"{path}.{by}" in taken}
        if step == "norm":
            given["stream"] = self.hook(self.layout.end(path))
        for block in self.layout.blocks:
            first = f"{path_of(block)}.{'project' if block.heads else 'compute'}" if block.reads else ""
            if first not in taken:
                continue
            for stream in self._read(block):
                if f"{stream.name}.norm" not in taken:
                    given["memory"] = self._hooks[stream.read_as]
            beside = f"{path.rpartition('.')[0]}.self_attn"  # of the layer that the pass starts in
            if block.beside and first.startswith(beside[: -len("self_attn")]) and f"{beside}.project" not in taken:
                given["start"] = f"{beside}.resid"
        return given

    def _read(self, block: Block) -> list[Stream]:
        """The other streams that a block reads."""
        return [s for s in self.layout.streams if s.name != block.writes and s.name in dict(block.reads).values()]


def path_of(block: Block) -> str:
    """Where the module of a block is, below the wired model."""
    return f"{block.writes}.{block.layer}.{BLOCKS[block.kind.rpartition('-')[2]]}"


def _holder(path: str, field: str) -> str:
    """The hook that holds a field of the state at a block."""
    written = "out" if path.endswith("mlp") else "z"
    return f"{path}." + {"stream": "resid", "written": written}.get(field, field)
