"""Where a Hugging Face model is: a folder, or a repository of the Hub with its commit. No torch here.

Nothing is asked of the Hub where a folder of that name is there. The Hub's own switches count (`HF_HUB_OFFLINE=1`,
`HF_HOME`), because its own client does the asking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steer.base.errors import CheckpointError
from steer.base.files import is_there, read_text
from steer.base.json import Json
from steer.base.shipped import CHECKPOINTS, CONFIG, RECORD, model_names

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MOST_BYTES = 20_000_000  # of a config or an index
HUB_ID = re.compile(r"(?P<id>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?")  # `owner/name@revision`
INSTALL = "Hugging Face models are read by `transformers`, which is not installed: pip install 'steer-interp[hf]'"
LOST = "the model is not among the files that were loaded before; unset HF_HUB_OFFLINE to ask the Hub for it"


@dataclass(frozen=True)
class Place:
    """Where the files of a model are."""

    name: str  # as the user gave it
    folder: Path
    repository: str = ""  # of the Hub; empty: the user's own folder
    commit: str = ""

    def path(self, file: str) -> Path | None:
        """One of its files; None if it has no such file."""
        path = self.folder / file
        if path.is_file():
            return path
        return _from_hub(self.repository, self.commit, file) if self.repository else None

    def need(self, file: str) -> Path:
        file_path = self.path(file)
        if file_path is None:
            raise CheckpointError(f"{self.name} is not a Hugging Face model: it holds no {file}")
        return file_path


def resolve(name: str) -> Place:
    """A folder as it is, or one that is shipped; anything else is asked of the Hub."""
    if not is_there(name) and name in model_names():
        return Place(name, CHECKPOINTS / name)
    if is_there(name):
        if not Path(name).is_dir():
            raise CheckpointError(f"{name} is a file; a Hugging Face model is a folder with {CONFIG}")
        return Place(name, Path(name))
    parts = HUB_ID.fullmatch(name)
    if parts is None or name.startswith((".", "/")):
        raise CheckpointError(f"no folder named {name!r} (nor is it a name of the Hub, such as owner/model)")
    config = _from_hub(parts["id"], parts["revision"] or "main", CONFIG)
    if config is None:
        raise CheckpointError(f"{name}: this repository of the Hub holds no {CONFIG}")
    return Place(name, config.parent, parts["id"], config.parent.name)


def _from_hub(repository: str, revision: str, file: str) -> Path | None:
    """A file of the Hub as it lies in the local store, loaded if need be; None if the repository has no such file."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    except ImportError as error:
        raise CheckpointError(INSTALL) from error
    try:
        return Path(hf_hub_download(repository, file, revision=revision))
    except LocalEntryNotFoundError as error:
        if file != CONFIG:
            return None
        raise CheckpointError(f"{repository}: the Hub cannot be asked: {LOST}") from error
    except EntryNotFoundError:
        return None
    except Exception as error:  # whatever the network or the Hub has against it
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(f"{repository}: the Hub does not give it ({reason[:200]})") from error


def read_config(place: Place) -> Json:
    """`config.json` as data."""
    return _object(place.need(CONFIG))


def _object(path: Path) -> Json:
    try:
        content = json.loads(read_text(path, MOST_BYTES, CheckpointError))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: is not JSON") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: must be an object, not {type(content).__name__}")
    return content


def weight_files(place: Place) -> list[Path]:
    """The safetensors files that hold the weights, in the order of their names. Nothing pickled is ever opened."""
    whole = place.path(WEIGHTS)
    if whole is not None:
        return [whole]
    index = place.path(INDEX)
    if index is None:
        raise CheckpointError(_without_weights(place))
    parts: Any = _object(index).get("weight_map")
    if not isinstance(parts, Mapping) or not all(_is_name(part) for part in parts.values()):
        raise CheckpointError(f"{index}: `weight_map` must name the file of each tensor")
    return [place.need(part) for part in sorted(set(parts.values()))]


def _is_name(part: object) -> bool:
    return isinstance(part, str) and Path(part).name == part and part.endswith(".safetensors")


def _without_weights(place: Place) -> str:
    pickled = sorted(path.name for path in place.folder.glob("*.bin")) or ["pytorch_model.bin"] * bool(place.repository)
    if not pickled:
        return f"{place.name}: holds no {WEIGHTS}"
    return (
        f"{place.name}: holds no {WEIGHTS}, and pickled weights ({pickled[0]}) are never opened: they can run code. "
        "Whoever trusts them can save the model again with `save_pretrained`, which writes safetensors"
    )


def is_hugging_face(name: str) -> bool:
    """A folder whose `config.json` names a type of model, and which is no checkpoint of ours; or a shipped one."""
    folder = Path(name) if is_there(name) or name not in model_names() else CHECKPOINTS / name
    if not is_there(folder / CONFIG) or is_there(folder / RECORD):
        return False
    try:
        return "model_type" in _object(folder / CONFIG)
    except CheckpointError:
        return False
