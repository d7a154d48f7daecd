"""`steer draw`: draw the figures of a saved result again, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

KINDS = ("bars", "positions", "scatter", "patterns", "histogram", "rates")


def draw(
    result: Annotated[Path, typer.Argument(help="A result's folder, its result.json, or a circuit.yaml.")],
    figure: Annotated[str | None, typer.Option(help=f"{', '.join(KINDS)}, instead of the recipe's choice.")] = None,
) -> None:
    """Draw the figures of a saved result again."""
    from dataclasses import replace

    from steer.base.errors import SteerError, unknown
    from steer.results.circuit import CIRCUIT
    from steer.results.files import RESULT, read_result

    if result.name == CIRCUIT or (not (result / RESULT).is_file() and (result / CIRCUIT).is_file()):
        if figure is not None:
            raise SteerError("a circuit is always drawn as a graph and a curve; leave --figure out")
        _draw_circuit(result if result.name == CIRCUIT else result / CIRCUIT)
        return

    saved = read_result(result)
    if figure is not None:
        if figure not in KINDS:
            raise SteerError(unknown("figure", figure, KINDS))
        saved.provenance = replace(saved.provenance, figures=(figure,))

    from steer.drawing.figures.draw import draw_result

    assert saved.folder is not None
    with _placed(result, "steer run"):
        pictures = draw_result(saved, saved.folder)
    if figure is not None and not pictures:
        raise SteerError(f"{result}: has nothing to draw as {figure}")
    text = "\n".join(f"picture: {picture}" for picture in pictures)
    typer.echo(text or f"this recipe asks for no figure; give --figure with one of {', '.join(KINDS)}")


def _draw_circuit(path: Path) -> None:
    from steer.drawing.figures.circuit import draw_all
    from steer.results.circuit import load_circuit

    circuit = load_circuit(path)
    with _placed(path, "steer discover"):
        pictures = draw_all(circuit, path.parent)
    for picture in pictures:
        typer.echo(f"picture: {picture}")


@contextmanager
def _placed(path: Path, verb: str) -> Iterator[None]:
    """A file that was edited by hand may be well formed, and its numbers still impossible to draw."""
    from steer.base.errors import SteerError

    try:
        yield
    except SteerError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error!s:.200}; `--debug` shows where"
        raise SteerError(f"{path}: cannot be drawn; was it changed since `{verb}` wrote it? ({reason})") from error
