"""`steer import`: weights that were trained elsewhere become a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT_TASK
from steer.commands.options import JsonOption

if TYPE_CHECKING:
    from steer.models.record import Record

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
    from steer.experiments.importing import import_weights as make

    record = make(
        file, out, max_length=max_length, heads=heads, norm_first=norm_first, activation=activation,
        prompt_embedding=prompt_embedding, answer_embedding=answer_embedding, unembedding=unembedding,
        vocabulary=vocabulary, answer_vocabulary=answer_vocabulary, task=task,
    )  # fmt: skip
    _report(record, out, json)


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
