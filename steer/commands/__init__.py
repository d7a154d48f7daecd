"""The command line: one file for each command, heavy imports inside the commands.

This file only lists them. `steer --help` must answer at once, so nothing here may import torch.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from steer.commands.ask import ask
from steer.commands.attend import attend
from steer.commands.attribute import attribute
from steer.commands.cp import cp
from steer.commands.discover import discover
from steer.commands.draw import draw
from steer.commands.episodes import episodes
from steer.commands.eval import evaluate
from steer.commands.ls import ls
from steer.commands.plan import plan, schema, validate
from steer.commands.reproduce import reproduce
from steer.commands.run import run
from steer.commands.train import train
from steer.errors import SteerError
from steer.version import __version__


class Group(TyperGroup):
    """Turns an input's fault into its message and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SteerError as error:
            for fault in error.faults:
                typer.echo(f"error: {fault}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo("interrupted; what was finished is kept", err=True)
            raise typer.Exit(130) from error


app = typer.Typer(
    name="steer",
    cls=Group,
    help="State causal experiments on a transformer as recipes, and run them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"steer {__version__}")
        raise typer.Exit


@app.callback()
def steer(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for command in (
    run,
    reproduce,
    draw,
    plan,
    validate,
    schema,
    attribute,
    attend,
    discover,
    ask,
    ls,
    cp,
    episodes,
    train,
):
    app.command()(command)
app.command("eval")(evaluate)
