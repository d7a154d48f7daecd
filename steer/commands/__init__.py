"""The command line: one file for each command, heavy imports inside the commands.

This file only lists them. `steer --help` must answer at once, so nothing here may import torch.
"""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from steer.base.errors import SteerError
from steer.base.log import is_debugging, start_debugging, traceback_of
from steer.base.version import __version__
from steer.commands.align import align
from steer.commands.ask import ask
from steer.commands.attend import attend
from steer.commands.attribute import attribute
from steer.commands.check import check
from steer.commands.cp import cp
from steer.commands.direction import direction
from steer.commands.discover import discover
from steer.commands.doctor import doctor
from steer.commands.draw import draw
from steer.commands.episodes import episodes
from steer.commands.eval import evaluate
from steer.commands.importing import import_weights
from steer.commands.ls import ls
from steer.commands.migrate import migrate
from steer.commands.plan import plan, schema, validate
from steer.commands.renumber import renumber
from steer.commands.reproduce import reproduce
from steer.commands.results import compare, results
from steer.commands.run import run
from steer.commands.train import train


class Group(TyperGroup):
    """Turns a fault of the input, or of the machine, into a message and exit code 2."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a character: no reason to fail
        try:
            return super().main(*arguments, **options)
        except OSError as error:  # the disk is full, or may not be read
            if is_debugging():
                typer.echo(traceback_of(error), err=True)
            place = f"{error.filename}: " if error.filename else ""
            typer.echo(f"error: {place}{error.strerror or error}", err=True)
            _leave(2)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for word in args:
            if "\0" in word or not _is_text(word):
                raise typer.BadParameter(f"{word!r} is not text (UTF-8)")
        try:
            return list(super().parse_args(ctx, args))
        except KeyboardInterrupt as error:  # typer would say "Aborted"
            self.interrupted(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SteerError as error:
            if is_debugging():
                typer.echo(traceback_of(error), err=True)
            for fault in error.faults:
                typer.echo(f"error: {fault}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            self.interrupted(error)
        except BrokenPipeError:  # the reader has seen enough
            _leave(0)
        finally:
            gc.enable()  # a quick look does without (glance.py)

    def interrupted(self, error: KeyboardInterrupt) -> NoReturn:
        """Print that the command was interrupted and, if it says so, what is kept."""
        typer.echo("; ".join(("interrupted", *map(str, error.args))), err=True)
        raise typer.Exit(130) from error


def _leave(code: int) -> NoReturn:
    """Exit, and discard output that cannot be written: Python would try again on exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


app = typer.Typer(
    name="steer",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="State causal experiments on a transformer as recipes, and run them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"steer {__version__}")
        raise typer.Exit


@app.callback()
def steer(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Log what is done, and show the traceback of every error.")
    ] = False,
) -> None:
    if debug:
        start_debugging()


for command in (
    run,
    reproduce,
    draw,
    results,
    compare,
    plan,
    validate,
    schema,
    check,
    attribute,
    attend,
    discover,
    direction,
    align,
    ask,
    doctor,
    ls,
    cp,
    migrate,
    episodes,
    train,
    renumber,
):
    app.command()(command)
app.command("eval")(evaluate)
app.command("import")(import_weights)
