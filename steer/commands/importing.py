"""`steer import`: weights that were trained elsewhere become a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steer.base.errors import SteerError, unknown
from steer.base.shipped import DEFAULT_TASK
from steer.commands.options import JsonOption

if TYPE_CHECKING:
    from steer.models.importing.state_dict import StateDictOptions
    from steer.models.record import Record

SAFE, MAX_SAFE = ".safetensors", 2_000_000_000  # bytes
ACTIVATIONS = ("gelu", "relu")
POST_NORM = (
    "--no-norm-first: a network that normalises after each block computes something else, and the plain model "
    "normalises before: it cannot be imported"
)

File = Annotated[Path, typer.Argument(help="The authors' net-HookedBIMLSmall.pt, or a state dict in FILE.safetensors.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="New folder for the checkpoint.")]
MaxLength = Annotated[int, typer.Option(min=1, max=4096, help="Tokens of a prompt, at most.")]
Heads = Annotated[int | None, typer.Option(help="State dicts: heads of a block.")]
NormFirst = Annotated[
    bool | None,
    typer.Option("--norm-first/--no-norm-first", help="State dicts: is there a LayerNorm before each block?"),
]
Activation = Annotated[str | None, typer.Option(help="State dicts: gelu or relu.")]
Key = Annotated[str | None, typer.Option(help="State dicts: the name of this tensor.")]
Tokens = Annotated[Path | None, typer.Option(help="State dicts: a file of tokens, one a line, in the order of rows.")]
AnswerTokens = Annotated[Path | None, typer.Option(help="The same for answers, if not the first of --vocabulary.")]
TaskName = Annotated[str | None, typer.Option(help=f"State dicts: the task of the model [{DEFAULT_TASK}].")]


def import_weights(
    file: File,
    out: Out,
    max_length: MaxLength = 256,
    heads: Heads = None,
    norm_first: NormFirst = None,
    activation: Activation = None,
    prompt_embedding: Key = None,
    answer_embedding: Key = None,
    unembedding: Key = None,
    vocabulary: Tokens = None,
    answer_vocabulary: AnswerTokens = None,
    task: TaskName = None,
    json: JsonOption = False,
) -> None:
    """Make a checkpoint of the authors' weights, or of a torch.nn.Transformer's. Nothing in the file is run."""
    needed = {
        "heads": heads, "norm_first": norm_first, "activation": activation, "prompt_embedding": prompt_embedding,
        "answer_embedding": answer_embedding, "unembedding": unembedding, "vocabulary": vocabulary,
    }  # fmt: skip
    if file.suffix == SAFE:
        options = _options(needed, max_length, answer_vocabulary=answer_vocabulary, task=task or DEFAULT_TASK)
    else:
        _refuse_options(needed | {"answer_vocabulary": answer_vocabulary, "task": task})
        options = None
    _report(_write(file, out, options, max_length), out, json)


def _options(needed: dict[str, Any], max_length: int, **more: Any) -> StateDictOptions:
    """The options of a state dict; raises if one of them is missing."""
    from steer.models.importing.state_dict import StateDictOptions
    from steer.tasks import TASKS

    TASKS[more["task"]]  # an unknown one is named with its neighbours
    missing = [_option(name) for name, value in needed.items() if value is None]
    if missing:
        raise SteerError(f"a state dict does not say everything: give {', '.join(missing)}")
    if not needed.pop("norm_first"):
        raise SteerError(POST_NORM)
    if needed["activation"] not in ACTIVATIONS:
        raise SteerError(f"--activation: {unknown('activation', needed['activation'], ACTIVATIONS)}")
    return StateDictOptions(max_length=max_length, **needed, **more)


def _refuse_options(given: dict[str, Any]) -> None:
    said = [_option(name) for name, value in given.items() if value is not None]
    if said:
        raise SteerError(
            f"{', '.join(said)}: only for a state dict in a {SAFE} file; the authors' file says all of this itself"
        )


def _option(name: str) -> str:
    return "--norm-first or --no-norm-first" if name == "norm_first" else f"--{name.replace('_', '-')}"


def _write(file: Path, out: Path, options: StateDictOptions | None, max_length: int) -> Record:
    from steer.base.files import read_file
    from steer.commands.folders import check_empty
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


def _report(record: Record, out: Path, json: bool) -> None:
    from json import dumps

    from steer.drawing.tables import render

    imported, config = record.imported, record.config
    assert imported is not None
    if json:
        typer.echo(dumps({"checkpoint": str(out), **imported.model_dump(), "sha256": record.weights_sha256}, indent=1))
        return
    known = (
        f"it is the authors' {imported.known_as}" if imported.known_as else "it is not one of the authors' two files"
    )
    typer.echo(
        render(
            f"{imported.file}: {config.size}, {config.vocabulary} tokens, {config.answer_tokens} of them in answers; "
            f"task {record.task}",
            f"git blob {imported.blob}: {known}", f"checkpoint: {out}",
        )
    )  # fmt: skip
