"""Pictures come after the numbers: a picture that fails is a warning, not an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

T = TypeVar("T")


def draw_or_warn(draw: Callable[[], T], name: str) -> T | None:
    from steer.drawing.figures.draw import attempt

    drawn, why = attempt(draw, name)
    warn(why)
    return drawn


def warn(*reasons: str) -> None:
    for reason in filter(None, reasons):
        typer.echo(f"warning: {reason}", err=True)
