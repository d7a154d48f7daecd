"""Where the numbers of a result come from, so that anybody can get them again."""

from __future__ import annotations

from dataclasses import dataclass, field

from steer.base.json import Json
from steer.base.shipped import DEFAULT_TASK
from steer.results.rows import CLOSED


@dataclass(frozen=True)
class Weights:
    __pydantic_config__ = CLOSED

    name: str
    sha256: str = ""
    numbering: str = ""  # whose numbers the heads have, if they were renumbered
    commit: str = ""  # of a model from the Hugging Face Hub
    config: str = ""  # SHA-256 of what a model has beside its weights: a record, or config and tokenizer

    @property
    def identity(self) -> str:
        """Two checkpoints of one identity give the same numbers."""
        return self.sha256 + self.commit + self.config


@dataclass(frozen=True)
class Provenance:
    """The question, the weights it was put to, and how the answer was computed."""

    __pydantic_config__ = CLOSED

    name: str
    checkpoint: Weights
    examples: int
    wanted: int  # examples that the recipe asks for; there may be fewer that fit
    kind: str = ""
    description: str = ""
    figures: tuple[str, ...] = ()
    shown: str = ""  # the condition that a picture puts beside the unchanged one
    hash: str = ""
    recipe: Json = field(default_factory=dict)  # as it was run
    changes: tuple[str, ...] = ()  # `key=value` arguments
    edited: dict[str, tuple[str, ...]] = field(default_factory=dict)  # condition -> sites
    ablation: str = ""  # what stands in for an ablated value; empty if nothing is ablated
    layer_norm: str = ""
    intervals: str = ""
    forwards: int = 0
    device: str = ""
    dtype: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    task: str = DEFAULT_TASK
    roles: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # role -> its heads in these weights, the lead first

    @property
    def played(self) -> dict[str, str]:
        """Head -> the role that it plays, as recipes name it."""
        return {head: f"${role}" for role, heads in self.roles.items() for head in heads}
