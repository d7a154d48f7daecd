"""A model whose circuit is looked for, with the examples that it is searched and judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steer.base.memory import MEMORY
from steer.discover.lab import Helpers
from steer.discover.search import Tell, discover
from steer.engine.engine import Engine
from steer.experiments.given import prompts_of
from steer.models.checkpoint import Checkpoint
from steer.models.devices import check_device, check_dtype
from steer.models.families import load_subject
from steer.models.subject import Subject
from steer.results.circuit import Circuit
from steer.results.evidence import SearchSettings
from steer.tasks.task import Example


@dataclass(frozen=True)
class Sought:
    subject: Subject  # without a stored circuit
    searched: Sequence[Example]
    judged: Sequence[Example]
    memory: int = MEMORY

    def engine(self) -> Engine:
        return Engine.within(self.subject.model, self.memory)

    def circuit(
        self, settings: SearchSettings, tell: Tell = lambda done, text: None, helpers: Helpers | None = None,
        engine: Engine | None = None,
    ) -> Circuit:  # fmt: skip
        count, threshold = settings.episodes, settings.threshold
        engine = engine or self.engine()
        return discover(self.subject, self.searched, self.judged, count, threshold, tell, engine, helpers)


def on_own_task(loaded: Checkpoint) -> Sought:
    """On the task that it was trained on, its two last sets."""
    searched, judged = (loaded.task.split(one, loaded.record.data_seed) for one in loaded.task.splits[-2:])
    return Sought(Checkpoint(loaded.transformer, loaded.record, loaded.name), searched, judged)


def on_prompts(name: str, file: Path, device: str = "cpu", dtype: str = "float32", memory: int = MEMORY) -> Sought:
    check_dtype(dtype)
    check_device(device)
    prompts = prompts_of(name, file)
    searched, judged = prompts.apart(0)  # what is wrong with the file is said before any weights are read
    subject = load_subject(name, device, dtype).about(prompts)
    sought = Sought(subject, searched, judged, memory)
    sought.engine().batch_size([*searched, *judged])  # what no memory holds is not tried
    subject.examine([*searched, *judged])
    return sought
