"""`steer draw`: a figure again from a saved result, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

KINDS = ("bars", "positions", "scatter", "patterns", "histogram", "rates")


def draw(
    result: Annotated[Path, typer.Argument(help="A result's folder, its result.json, or a circuit.yaml.")],
    figure: Annotated[str | None, typer.Option(help=f"{', '.join(KINDS)}, instead of the recipe's choice.")] = None,
) -> None:
    """Draw the figures of a saved result again."""
    from steer.base.errors import SteerError, unknown
    from steer.results.circuit import CIRCUIT
    from steer.results.result import RESULT, read_result

    if result.name == CIRCUIT or (not (result / RESULT).is_file() and (result / CIRCUIT).is_file()):
        if figure is not None:
            raise SteerError("a circuit is always drawn as a graph and a curve; leave --figure out")
        _draw_circuit(result if result.name == CIRCUIT else result / CIRCUIT)
        return

    found = read_result(result)
    if not isinstance(found.metadata.get("recipe"), dict) or found.folder is None:
        raise SteerError(f"{result}: is not the result of a recipe")
    if figure is not None:
        if figure not in KINDS:
            raise SteerError(unknown("figure", figure, KINDS))
        found.metadata["recipe"]["figure"] = [figure]

    from steer.drawing.figures.draw import draw_result

    try:
        pictures = draw_result(found, found.folder)
    except SteerError:
        raise
    except Exception as error:  # written by hand, or by another version: anything may be wrong with it
        raise SteerError(f"{result}: cannot be drawn, its parts are not those that `steer run` writes") from error
    if figure is not None and not pictures:
        raise SteerError(f"{result}: has nothing to draw as {figure}")
    told = "\n".join(f"picture: {picture}" for picture in pictures)
    typer.echo(told or f"this recipe asks for no figure; give --figure with one of {', '.join(KINDS)}")


def _draw_circuit(path: Path) -> None:
    from steer.base.errors import SteerError
    from steer.base.yaml import check, read
    from steer.drawing.figures.circuit import draw_all
    from steer.results.circuit import Circuit

    circuit = check(read(path), Circuit)
    try:
        pictures = draw_all(circuit, path.parent)
    except SteerError:
        raise
    except Exception as error:  # written by hand, or by another version
        raise SteerError(f"{path}: cannot be drawn, its parts are not those that `steer discover` writes") from error
    for picture in pictures:
        typer.echo(f"picture: {picture}")
