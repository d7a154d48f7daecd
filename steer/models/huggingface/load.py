"""Weights from safetensors files into the model class that the row names; every fault of a folder is said at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from steer.anatomy.names import Names
from steer.base.errors import CheckpointError
from steer.base.log import LOG
from steer.base.shipped import CONFIG
from steer.models.huggingface.encoding import Frame
from steer.models.huggingface.family import tokenizer_of
from steer.models.huggingface.layout import layout_of, padding, row_of
from steer.models.huggingface.model import HuggingFaceModel, wire
from steer.models.huggingface.place import INSTALL, Place, read_config, weight_files
from steer.models.huggingface.subject import HuggingFaceSubject
from steer.models.vocabulary import Vocabulary
from steer.results.provenance import Weights
from steer.tasks import TASKS

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "source.spm", "target.spm", "spiece.model", "vocab.json")
SHOWN = 6  # tensors that are named before the rest are counted
# What older files hold beside the weights: masks and angles that the model makes itself.
MADE = re.compile(r".*(attn|attention)\.(masked_)?bias|.*rotary_emb\.inv_freq|.*position_ids|.*embed_positions\.weight")


def load_subject(place: Place, device: str, dtype: str) -> HuggingFaceSubject:
    files = weight_files(place)
    model = load_model(place, device, dtype)
    names = Names(model.layout)
    subject = HuggingFaceSubject(place.name, names, model, TASKS["prompts"], weights_of(place, files))
    subject.examine(())
    return subject


def load_model(place: Place, device: str, dtype: str) -> HuggingFaceModel:
    config = read_config(place)
    row, layout = row_of(config, place.name), layout_of(config, place.name)
    tokenizer = tokenizer_of(place)
    weight_files(place)  # of the Hub, they are loaded now
    network = _network(place, row.classes[0], dtype)
    if layout_of(network.config.to_dict(), place.name) != layout:
        raise CheckpointError(
            f"{place.name}: config.json leaves sizes open that transformers fills in: write them down"
        )
    rows = network.get_input_embeddings().num_embeddings
    if rows != tokenizer.size:
        raise CheckpointError(
            f"{place.name}: {rows:,} token embeddings; config.json says vocab_size {tokenizer.size:,}"
        )
    before, after = tokenizer.around
    frame = Frame(Vocabulary(tokenizer.names, *padding(row, config, place.name)), before, after)
    LOG.debug("%s: %s, %s on %s", place.name, row.classes[0], dtype, device)
    return wire(network.to(device), place.name, frame)


def _network(place: Place, kind: str, dtype: str) -> Any:
    """The weights in the model's own class, all of them and no others."""
    try:
        import transformers
    except ImportError as error:
        raise CheckpointError(INSTALL) from error
    with _quiet(transformers), _placed(place.name):
        network, report = getattr(transformers, kind).from_pretrained(
            str(place.folder), dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False,
            attn_implementation="eager", local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True,
        )  # fmt: skip
    check_tensors(place.name, report)
    broken = [name for name, tensor in network.state_dict().items() if not tensor.isfinite().all()]
    if broken:
        raise CheckpointError(f"{place.name}: NaN or infinity in {_some(broken)}")
    return network


def check_tensors(name: str, report: Mapping[str, Iterable[Any]]) -> None:
    """What transformers only warns of is a fault here: it would go on with random numbers."""
    missing = sorted(report.get("missing_keys", ()))
    surplus = sorted(key for key in report.get("unexpected_keys", ()) if not MADE.fullmatch(key))
    wrong = sorted(
        f"{key} is {list(sizes)}, expected {list(due)}" for key, sizes, due in report.get("mismatched_keys", ())
    )
    kinds = (("missing tensors", missing), ("unexpected tensors", surplus), ("wrong tensors", wrong))
    faults = [f"{name}: {len(tensors)} {kind}: {_some(tensors)}" for kind, tensors in kinds if tensors]
    if faults:
        raise CheckpointError(*faults)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


@contextmanager
def _placed(name: str) -> Iterator[None]:
    """Whatever the library has against a folder, in one line."""
    try:
        yield
    except Exception as error:
        lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
        raise CheckpointError(f"{name}: cannot be loaded ({' '.join(lines)[:300] or type(error).__name__})") from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Its bars and warnings are not ours to show: what they say is a fault here."""
    logging = transformers.logging
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def weights_of(place: Place, files: Iterable[Path]) -> Weights:
    """Which weights these are: the commit of the Hub, or the SHA-256 of a folder's files in the order of names."""
    if place.commit:
        return Weights(place.name, commit=place.commit)
    beside = (place.path(file) for file in (CONFIG, *TOKENIZER_FILES))
    return Weights(place.name, _digest(files), config=_digest(path for path in beside if path is not None))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while part := file.read(1 << 22):
                digest.update(part)
    return digest.hexdigest()
