"""How figures look: their files and sizes, the order and the names of bars, panels, titles."""

from __future__ import annotations

from pathlib import Path
from struct import unpack

import pytest
from axes import bars, legend, result, row

from steer.base.errors import SteerError
from steer.drawing.figures.draw import draw_result
from steer.drawing.figures.sweep import draw_bars
from steer.drawing.figures.theme import AGAINST
from steer.drawing.look import look_of
from steer.drawing.page import words_and_code

SWEPT = {
    "enc-self-1.1": 0.31, "nothing ablated": 0.93, "enc-self-0.7": 0.62, "enc.tok": 0.44, "everything ablated": 0.11,
}  # fmt: skip


def test_other_files_and_sizes_are_drawn_on_request(tmp_path: Path):
    found = result([row("a", 0.5), row("a", 0.6, position=1)], figures=("positions", "bars"))
    draw_result(found, tmp_path, look_of(["pdf", "svg"], "7x4"))
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".pdf", ".svg"}
    assert unpack(">II", (tmp_path / "figure.png").read_bytes()[16:24]) == (7 * 300, 4 * 300)


@pytest.mark.parametrize("size", ["", "x", "7x", "7x4x2", "-1", "0.1", "nan", "400", "7,4"])
def test_a_size_that_is_none_and_an_unknown_format_are_said_at_once(size: str):
    with pytest.raises(SteerError) as raised:
        look_of(["pdff"], size)
    assert [fault.split(":")[0] for fault in raised.value.faults] == ["--format", "--size"]


def test_sources_are_sorted_and_roles_are_named():
    swept = [row(name, value) for name, value in SWEPT.items()]
    roles = {"primitive-pairing": ("enc-self-1.1",)}
    most, least = [0.62, 0.44, 0.31], [0.31, 0.44, 0.62]
    chain = "chained-patch"
    for kind, mode, order in (
        ("keep-only-one", "", most), ("ablate-only-one", "", least),
        (chain, "", most), (chain, "keep-only-one", most), (chain, "ablate-only-one", least),
    ):  # fmt: skip
        recipe = {"mode": mode} if mode else {}
        (axes,) = draw_bars(result(swept, kind=kind, roles=roles, recipe=recipe)).axes
        drawn = sorted(bars(axes), key=lambda bar: bar[1])
        assert [end for *_, end, _ in drawn][2:] == pytest.approx(order)
        bold = [label.get_text() for label in axes.get_yticklabels() if label.get_fontweight() == "bold"]
        assert bold == ["enc-self-1.1 $primitive-pairing"]


def test_every_measure_has_a_panel_and_what_answers_are_compared_with_its_colour():
    told = [
        row(when, 0.5, measure=measure, against=against, of="")
        for when in ("before", "after") for measure in ("attention-mass", "exact-match")
        for against in ("answer", "counterfactual")
    ]  # fmt: skip
    figure = draw_bars(result(told))
    assert [axes.get_xlabel() for axes in figure.axes] == ["attention mass", "exact match"]
    assert legend(figure) == {AGAINST["answer"]: "on the answer", AGAINST["counterfactual"]: "on the counterfactual"}


def test_no_word_stands_alone_in_a_titles_last_line():
    text = "encoder heads and MLPs into the Output Head's keys, one kept at a time"
    lines = draw_bars(result([row("a", 0.5)], description=text)).get_suptitle().split("\n")[:2]
    assert " ".join(lines) == text
    assert min(map(len, lines)) > 0.6 * max(map(len, lines))


@pytest.mark.parametrize("word", ["WORD ", "word ", "W" * 300, "ill "])
def test_a_title_of_wide_letters_stays_within_the_figure(word: str):
    figure = draw_bars(result([row("a", 0.5)], description=word * 60))
    figure.draw_without_rendering()
    (shown,) = [text for text in figure.texts if "episodes" in text.get_text()]
    drawn = shown.get_window_extent()
    assert 0 <= drawn.x0 < drawn.x1 <= figure.bbox.width
    assert len(shown.get_text().splitlines()[0]) > 20  # and the room is used


def test_a_page_shows_commands_as_code_and_leaves_other_text_alone():
    assert words_and_code("`steer discover` finds a < b") == "<code>steer discover</code> finds a &lt; b"
    assert words_and_code("one ` alone, <b>") == "one ` alone, &lt;b&gt;"
