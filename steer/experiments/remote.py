"""A recipe on a model that a server runs (NDIF): the model by its name on the Hub, the passes through nnsight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steer.base.errors import SteerError, keyed
from steer.base.memory import MEMORY
from steer.recipe.load import Loaded

if TYPE_CHECKING:
    from steer.engine.engine import Engine
    from steer.models.subject import Subject

HERE = "local"  # nnsight's own server of this process: what is sent is packed and unpacked, and run here


def remote_engine(loaded: Loaded, how: bool | str, memory: int = MEMORY) -> tuple[Subject, Engine]:
    """The model that a recipe names, to be run elsewhere. `how`: True, the address of a host, or `local`."""
    with loaded.placing(), keyed("checkpoint"):
        return _opened(loaded.recipe.checkpoint, how, memory)


def _opened(checkpoint: str, how: bool | str, memory: int) -> tuple[Subject, Engine]:
    from steer.engine.backends import remote
    from steer.engine.engine import Engine
    from steer.models.huggingface.place import resolve
    from steer.models.huggingface.remote import check_sent, remote_subject

    family, colon, name = checkpoint.partition(":")
    if (family, colon) != ("hf", ":"):
        raise SteerError(f"--remote is for models of the Hugging Face Hub (hf:owner/name), not {checkpoint}")
    place = resolve(name)
    if not place.repository and how != HERE:
        raise SteerError(f"{name} is a folder; a server knows models by their name on the Hub (hf:owner/name)")
    check_sent(place)
    network = remote.opened(place.repository or str(place.folder), place.commit)
    subject = remote_subject(place, network._module)
    backend = remote.Remote(network, subject.model.taps, how)
    return subject, Engine(subject.model, memory // 4, memory, backend)
