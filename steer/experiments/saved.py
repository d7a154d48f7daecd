"""Results that are there already: drawn again, listed, and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from steer.base.errors import SteerError, unknown
from steer.base.json import Json
from steer.base.shipped import recipe_names
from steer.base.shown import Card, Shown, counted
from steer.drawing.look import KINDS, Look, look_of
from steer.recipe.load import load_recipe
from steer.results.circuit import CIRCUIT, Circuit, load_circuit
from steer.results.compare import Comparison, compare_results
from steer.results.details import Pattern
from steer.results.files import RESULT, read_result
from steer.results.listing import Listed, changes_against, list_folder
from steer.results.result import Result

Drawable: TypeAlias = Result | Circuit | Pattern | Path | str


def draw(
    what: Drawable, *, figure: str | None = None, out: Path | str | None = None, formats: Sequence[str] = (),
    size: str | float | Sequence[float] | None = None,
) -> list[Path]:  # fmt: skip
    """Draw a result, a circuit (in memory, or by folder or file) or a pattern; gives the pictures' places.

    They are written beside what they are of, unless `out` names a folder; as PNG, and as `formats` says (pdf, svg).
    `size` in inches: a width, or "7x4". `figure`: another kind than the recipe's own choice.
    """
    look, shown = look_of(formats, size), _read(what)
    if figure is not None and not isinstance(shown, Result):
        raise SteerError("a circuit is always drawn as a graph and a curve; leave --figure out")
    folder = _folder(what, shown, out)
    match shown:
        case Result():
            place = str(what) if isinstance(what, str | Path) else shown.provenance.name
            return _draw_result(shown, place, figure, folder, look)
        case Circuit():
            from steer.drawing.figures.circuit import draw_all

            with _placed(what if isinstance(what, str | Path) else folder, "steer discover"):
                return draw_all(shown, folder, look)
        case _:
            from steer.drawing.figures.pattern import draw_pattern

            return [draw_pattern(shown, folder, shown.head, look)]


def _read(what: Drawable) -> Result | Circuit | Pattern:
    if isinstance(what, Result | Circuit | Pattern):
        return what
    if not isinstance(what, str | Path):
        raise SteerError(f"a result, a circuit, a pattern, or the place of one can be drawn, not {what!r:.60}")
    path = Path(what)
    if path.name == CIRCUIT or (not (path / RESULT).is_file() and (path / CIRCUIT).is_file()):
        return load_circuit(path if path.name == CIRCUIT else path / CIRCUIT)
    return read_result(path)


def _folder(what: Drawable, shown: Result | Circuit | Pattern, out: Path | str | None) -> Path:
    if out is not None:
        return Path(out)
    if isinstance(shown, Result) and shown.folder is not None:
        return shown.folder
    if isinstance(what, str | Path):
        return Path(what) if Path(what).is_dir() else Path(what).parent
    raise SteerError("it has not been saved, so there is no folder to draw into: give out=")


def _draw_result(result: Result, place: str, figure: str | None, folder: Path, look: Look) -> list[Path]:
    if figure is not None:
        if figure not in KINDS:
            raise SteerError(unknown("figure", str(figure), KINDS))
        result = replace(result, provenance=replace(result.provenance, figures=(figure,)))

    from steer.drawing.figures.draw import draw_result

    with _placed(place, "steer run"):
        pictures = draw_result(result, folder, look)
    if figure is not None and not pictures:
        raise SteerError(f"{place}: has nothing to draw as {figure}")
    return pictures


@contextmanager
def _placed(path: Path | str, verb: str) -> Iterator[None]:
    """A file may be well formed and its numbers still impossible to draw, if it was edited by hand."""
    try:
        yield
    except SteerError:
        raise
    except Exception as error:
        raise SteerError(f"{path}: cannot be drawn, its parts are not those that `{verb}` writes") from error


@dataclass(frozen=True)
class Saved:
    """A result that is there, and how its recipe differs from the shipped one of its name."""

    listed: Listed
    changes: tuple[str, ...] = ()
    own: bool = False  # no shipped recipe has its name

    def to_json(self) -> Json:
        return self.listed.to_json() | {"changes": list(self.changes), "own": self.own}


class Listing(Shown, tuple[Saved, ...]):
    """The results of a folder, the newest first."""

    __slots__ = ()

    def card(self) -> Card:
        titles = ("recipe", "changes", "checkpoint", "episodes", "date", "folder")
        return Card(counted(len(self), "result"), (), titles, self.rows)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """What a table shows: recipe, changes, checkpoint, episodes, date, folder."""
        return [
            (
                one.listed.recipe or f"steer {one.listed.verb}", "own recipe" if one.own else ", ".join(one.changes),
                one.listed.checkpoint, "" if one.listed.examples is None else f"{one.listed.examples:,}",
                f"{one.listed.date:%Y-%m-%d %H:%M}", str(one.listed.folder),
            )
            for one in self
        ]  # fmt: skip


def results(folder: Path | str = "results") -> Listing:
    """What lies in a folder of results: recipe, changes against the shipped one, checkpoint, date; the newest first."""
    return Listing(map(_saved, list_folder(Path(folder))))


def _saved(listed: Listed) -> Saved:
    if not listed.recipe:
        return Saved(listed)
    known = [changes_against(listed.content, shipped) for shipped in _shipped(listed.recipe)]
    return Saved(listed, min(known, key=len)) if known else Saved(listed, own=True)


@lru_cache(maxsize=64)
def _shipped(stem: str) -> list[Json]:
    """Shipped recipes as they stand, by the name of their results: folders may have one of the same name each."""
    names = [name for name in recipe_names() if name.rpartition("/")[2] == stem]
    return [load_recipe(name).recipe.model_dump(mode="json") for name in names]


def compare(first: Result | Path | str, second: Result | Path | str) -> Comparison:
    """Two results side by side: rows of the same thing, the second less the first, and the 95 % interval of that.

    The intervals are paired where both are of the same examples, otherwise independent (`steer/results/compare.py`).
    """
    return compare_results(*(one if isinstance(one, Result) else read_result(one) for one in (first, second)))
