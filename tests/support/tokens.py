"""The shipped task as the tests use it: its token ids, arrays and answers, and the schemas that hold its own keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from steer.models import batch as batches
from steer.models import decoding
from steer.models.checkpoint import Checkpoint, Record
from steer.models.plain.transformer import Transformer
from steer.models.scoring import Scoring
from steer.models.training.protocol import protocol_for, stage_for
from steer.models.vocabulary import Vocabulary
from steer.recipe.tasked import recipe_schema
from steer.tasks import TASKS
from steer.tasks.compositional import curriculum
from steer.tasks.compositional.curriculum import Material
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS
from steer.tasks.task import Example

TASK = TASKS["compositional"]
VOCABULARY = Vocabulary(TOKENS)
SCORING = Scoring(TASK, VOCABULARY)
ID, PAD_ID, SOS_ID, EOS_ID = VOCABULARY.ids, VOCABULARY.pad, VOCABULARY.start, VOCABULARY.end
COLOUR_IDS = tuple(ID[colour] for colour in COLOURS)
encode, decode, decode_answer = VOCABULARY.encode, VOCABULARY.decode, VOCABULARY.decode_answer
RECIPE = recipe_schema(TASK).adapter
ROLES = tuple(TASK.roles)
MATERIAL = Material(make_splits(0).train, make_splits(0).held_out)
Stage, Protocol = stage_for(TASK), protocol_for(TASK)


def collate(examples: Sequence[Example]) -> batches.Batch:
    return batches.collate(examples, VOCABULARY)


def answers(model: Transformer, examples: Sequence[Example], batch: int = 250) -> Iterator[tuple[str, ...]]:
    return decoding.answers(model, examples, VOCABULARY, TASK.longest_answer, batch)


def score_all(model: Transformer, examples: Sequence[Example], batch: int = 250) -> decoding.Scores:
    return decoding.score_all(model, examples, VOCABULARY, batch)


def checkpoint_of(model: Transformer, name: str = "m") -> Checkpoint:
    return Checkpoint(model, Record(config=model.config, seed=0, protocol={}, history=[]), name)


def counterparts(episodes: Sequence[Episode], variable: str) -> list[Episode]:
    return [other for episode in episodes if (other := TASK.counterpart(episode, variable)) is not None]


def epoch_batches(stage: Any, given: Material, seed: int, epoch: int) -> list[batches.Batch]:
    """The batches of one epoch as arrays."""
    return [collate(examples) for examples in curriculum.epoch_batches(stage, given, seed, epoch)]
