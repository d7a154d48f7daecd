"""What a run leaves after every epoch, read back: all that going on from there needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from steer.base.errors import CheckpointError
from steer.base.json import Json
from steer.base.shipped import DEFAULT_TASK
from steer.base.yaml import Document, check
from steer.models.record import Epoch
from steer.models.training.protocol import Protocol, protocol_for
from steer.tasks import TASKS

STATE = "state.safetensors"


@dataclass(frozen=True)
class SavedState:
    path: Path
    seed: int
    settings: Json  # the protocol as it was resolved
    progress: Json
    history: list[Epoch]
    before: Json | None  # what the run began from
    tensors: dict[str, Tensor]

    @property
    def protocol(self) -> Protocol:
        return check(Document(str(self.path), self.settings), protocol_for(TASKS[str(self.settings["task"])]))


def read_state(folder: Path) -> SavedState:
    path = folder / STATE
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            state = json.loads(file.metadata()["steer"])
        settings = {"task": DEFAULT_TASK} | state["protocol"]  # older states do not name the task
        given = state["seed"], settings, state["progress"], state["history"], state.get("before")
    except (OSError, SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be resumed from ({error})") from error
    return SavedState(path, *given, tensors)
