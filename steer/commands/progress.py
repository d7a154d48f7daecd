"""A progress bar with the time that remains; nothing with --quiet or outside a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


@contextmanager
def bar(title: str, total: float, quiet: bool = False, unit: str = "") -> Iterator[Callable[[float, str], None]]:
    """Yields a function that moves the bar: it takes the amount done so far, and a word on the state."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done, text: None
        return
    counted = (
        MofNCompleteColumn() if total > 1 else TaskProgressColumn()
    )  # of a whole, its share: it moves from the start
    columns = (TextColumn(title), BarColumn(), counted, TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[text]}"), console=console, transient=True) as progress:
        task = progress.add_task(title, total=total, text="")
        yield lambda done, text: progress.update(task, completed=round(done, 4), text=text)


def spoken(quiet: bool = False) -> Callable[[str], None]:
    """A function that says a line about the work on stderr, above the bar; nothing with --quiet."""
    return lambda text: (
        None if quiet else Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)
    )
