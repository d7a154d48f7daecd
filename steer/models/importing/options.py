"""What a state dict does not say: whoever imports it must, by the command's options. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from steer.base.errors import SteerError, unknown
from steer.tasks import TASKS

SAFE = ".safetensors"
ACTIVATIONS = ("gelu", "relu")
POST_NORM = (
    "--no-norm-first: a network that normalises after each block computes something else, and the plain model "
    "normalises before: it cannot be imported"
)


@dataclass(frozen=True)
class StateDictOptions:
    """What a state dict does not say and the user must, by the command's options."""

    heads: int
    activation: str
    prompt_embedding: str
    answer_embedding: str
    unembedding: str
    vocabulary: Path
    task: str
    max_length: int
    answer_vocabulary: Path | None = None


def options_of(needed: Mapping[str, object], task: str, **more: object) -> StateDictOptions:
    """What a state dict does not say, all of it; else what is missing."""
    TASKS[task]  # an unknown one is named with its neighbours
    missing = [_option(name) for name, value in needed.items() if value is None]
    if missing:
        raise SteerError(f"a state dict does not say everything: give {', '.join(missing)}")
    if not needed["norm_first"]:
        raise SteerError(POST_NORM)
    if needed["activation"] not in ACTIVATIONS:
        raise SteerError(f"--activation: {unknown('activation', str(needed['activation']), ACTIVATIONS)}")
    stated = {name: value for name, value in needed.items() if name != "norm_first"}
    return TypeAdapter(StateDictOptions).validate_python({**stated, "task": task, **more})


def refuse_options(given: Mapping[str, object]) -> None:
    said = [_option(name) for name, value in given.items() if value is not None]
    if said:
        raise SteerError(
            f"{', '.join(said)}: only for a state dict in a {SAFE} file; the authors' file says all of this itself"
        )


def _option(name: str) -> str:
    return "--norm-first or --no-norm-first" if name == "norm_first" else f"--{name.replace('_', '-')}"
