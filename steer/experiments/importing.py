"""Weights that were trained elsewhere become a checkpoint: `steer import` from Python. Nothing in the file is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.files import read_file
from steer.base.shipped import DEFAULT_TASK
from steer.experiments.folders import check_empty
from steer.models.importing.options import SAFE, StateDictOptions, options_of, refuse_options

if TYPE_CHECKING:
    from steer.models.record import Record

MAX_SAFE = 2_000_000_000  # bytes


def import_weights(
    file: Path | str, out: Path | str, *, max_length: int = 256, heads: int | None = None,
    norm_first: bool | None = None, activation: str | None = None, prompt_embedding: str | None = None,
    answer_embedding: str | None = None, unembedding: str | None = None, vocabulary: Path | None = None,
    answer_vocabulary: Path | None = None, task: str | None = None,
) -> Record:  # fmt: skip
    """A checkpoint folder of the authors' weights, or of a torch.nn.Transformer's state dict; gives its record.

    All but `max_length` is what a state dict does not say itself.
    """
    file, out = Path(file), Path(out)
    needed = {
        "heads": heads, "norm_first": norm_first, "activation": activation, "prompt_embedding": prompt_embedding,
        "answer_embedding": answer_embedding, "unembedding": unembedding, "vocabulary": vocabulary,
    }  # fmt: skip
    if file.suffix == SAFE:
        more = {"max_length": max_length, "answer_vocabulary": answer_vocabulary}
        options = options_of(needed, task or DEFAULT_TASK, **more)
    else:
        refuse_options(needed | {"answer_vocabulary": answer_vocabulary, "task": task})
        options = None
    return _write(file, out, options, max_length)


def _write(file: Path, out: Path, options: StateDictOptions | None, max_length: int) -> Record:
    from steer.models.checkpoint import read_record, save_checkpoint
    from steer.models.importing.archive import MAX_BYTES
    from steer.models.importing.authors import read_authors
    from steer.models.importing.made import make_checkpoint
    from steer.models.importing.state_dict import read_state_dict

    check_empty(out)
    data = read_file(file, MAX_BYTES if options is None else MAX_SAFE)
    read = read_authors(data, str(file), max_length) if options is None else read_state_dict(data, str(file), options)
    save_checkpoint(out, *make_checkpoint(read, file, data))
    return read_record(out)
