"""One self-contained HTML page: a table that can be sorted, and every figure. No network."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import unpack

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from steer.base.files import write_atomically
from steer.base.version import __version__

TEMPLATE = "page.html.jinja"
DOTS, SHOWN = 300, 144  # dots per inch: in the picture's file, and on the page


@dataclass(frozen=True)
class Line:
    """A line of the table; `mark` is the colour of its edge: same, other, open or none."""

    mark: str
    cells: tuple[str, ...]
    target: str = ""  # the section that its last cell leads to


@dataclass(frozen=True)
class Section:
    """One recipe: its pictures, or the faults that prevented them."""

    name: str
    caption: str = ""
    pictures: Sequence[Path] = ()
    faults: Sequence[str] = ()
    claims: Sequence[tuple[int, str]] = ()  # lines of the table that it is about: number, from 1, and text
    command: str = ""  # that gives it again
    recipe: str = ""  # as it stands in its file
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    file: str = ""  # that has all rows, seen from the page
    provenance: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Page:
    title: str
    notice: str  # a warning that belongs to the numbers; may be empty
    lead: str
    columns: tuple[str, ...]
    lines: Sequence[Line]
    sections: Sequence[Section]
    small: str = ""  # the column in small print


@dataclass(frozen=True)
class Image:
    """A PNG as text, and its width on the page in pixels."""

    data: str
    width: int


def write_page(page: Page, path: Path) -> None:
    write_atomically(path, page_text(page))


def page_text(page: Page) -> str:
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["coded"] = words_and_code
    return environment.get_template(TEMPLATE).render(page=page, image=read_image, version=__version__)


def words_and_code(text: str) -> Markup:
    """Text for a page: what stands between backticks is code."""
    parts = text.split("`")
    coded = (
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )
    return Markup("").join(coded) if len(parts) % 2 else escape(text)


def read_image(picture: Path) -> Image:
    data = picture.read_bytes()
    (width,) = unpack(">I", data[16:20])
    return Image(b64encode(data).decode(), round(width * SHOWN / DOTS))
