"""Families of models by name. `Family` says what each must offer; each has a folder of its own.

A checkpoint is named `FAMILY:PLACE`; without a family in front it is a shipped name or a folder, of the plain family
unless its `config.json` says that it is a Hugging Face model.
Everything but `load` must do without torch: recipes are checked and plans printed before any weights are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from steer.anatomy.names import Names
from steer.base.registry import Registry
from steer.models.huggingface.place import is_hugging_face
from steer.models.steps import Steps
from steer.tasks.text import Tokenizer

if TYPE_CHECKING:
    from steer.models.subject import Subject


class Family(Protocol):
    """`place` is what follows the family's name: whatever the family uses to find a checkpoint."""

    def names(self, place: str) -> Names: ...
    def steps(self, place: str) -> Steps: ...
    def task(self, place: str) -> str: ...  # the name of the task that it was trained on, or `prompts`
    def tokenizer(self, place: str) -> Tokenizer: ...  # how it cuts texts into tokens
    def load(self, place: str, device: str, dtype: str) -> Subject: ...  # dtype: `float32`, `float64`


FAMILIES: Registry[Family] = Registry(
    "steer.models", {"plain": "steer.models.plain.family:FAMILY", "hf": "steer.models.huggingface.family:FAMILY"}
)


def family_of(checkpoint: str) -> tuple[Family, str]:
    """The family of a checkpoint and its place there: `toy:one` -> the family `toy`, and `one`."""
    name, colon, place = checkpoint.partition(":")
    if colon and name in FAMILIES:
        return FAMILIES[name], place
    return FAMILIES["hf" if is_hugging_face(checkpoint) else "plain"], checkpoint


def names_of(checkpoint: str) -> Names:
    family, place = family_of(checkpoint)
    return family.names(place)


def steps_of(checkpoint: str) -> Steps:
    family, place = family_of(checkpoint)
    return family.steps(place)


def task_of(checkpoint: str) -> str:
    family, place = family_of(checkpoint)
    return family.task(place)


def tokenizer_of(checkpoint: str) -> Tokenizer:
    family, place = family_of(checkpoint)
    return family.tokenizer(place)


def load_subject(checkpoint: str, device: str = "cpu", dtype: str = "float32") -> Subject:
    """The model ready to be studied."""
    family, place = family_of(checkpoint)
    return family.load(place, device, dtype)
