"""The story of an intervention: every text, cell and bar that stands on it is held against the result that it tells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from axes import bars, result, row, whiskers
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from steer.drawing.figures.draw import drawings
from steer.drawing.figures.story import SHADES, draw_story
from steer.drawing.figures.theme import ACCENT, MUTED, theme
from steer.results.details import Pattern, Transcript
from steer.results.result import Result

KEYS = ("B", "S", "A", "|", "A", "=", "red", "|", "B", "=", "green")
ANSWER, OTHER = ("red", "green"), ("green", "red")
RATES = {"before": 0.02, "both": 0.91, "control": 0.03, "ceiling": 0.97}
HEADS = {"both": ("enc-self-0.5.v", "enc-self-0.6.v"), "control": ("enc-self-0.1.v", "enc-self-0.2.v")}
STEER = {"kind": "steer", "by": "positions"}


def pattern(condition: str, *looks: int, head: str = "dec-cross-1.5") -> Pattern:
    """Attention of 0.8 on one key at each step, the rest on the first; the step after the last token looks nowhere."""
    weights = np.zeros((3, len(KEYS)))
    for step, key in enumerate(looks):
        weights[step, key] += 0.8
        weights[step, 0] += 0.2
    lines = tuple(map(tuple, weights.tolist()))
    return Pattern(head, "B S A", ANSWER, ("SOS", *ANSWER), KEYS, lines, condition, roles=("output",))


def story(**provenance: object) -> Result:
    rows = [row(name, value, measure="exact-match", against="counterfactual", of="") for name, value in RATES.items()]
    rows += [row("both", 0.05, measure="exact-match", against="answer", of="")]
    details = [
        pattern("before", 6, 10),
        pattern("both", 10, 6),
        pattern("ceiling", 4, 4),
        pattern("both", 1, 1, head="x"),
    ]
    said = [Transcript("before", "B S A", ANSWER, ANSWER, OTHER), Transcript("both", "B S A", OTHER, ANSWER, OTHER)]
    said += [Transcript("both", "another prompt", ("pink",), ANSWER, OTHER)]
    common = {"recipe": STEER, "shown": "both", "edited": HEADS, "figures": ("story",)}
    common |= {"roles": {"question-broadcast": ("enc-self-0.5", "enc-self-0.6")}}
    return result(rows, *details, *said, **common | provenance)


def drawn(shown: Result) -> tuple[Figure, Axes, Axes]:
    with theme():
        figure = draw_story(shown)
    lanes, rates = figure.axes
    return figure, lanes, rates


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_each_lane_says_where_the_head_looks_and_what_is_written():
    _, lanes, _ = drawn(story())
    prompt, rest = texts(lanes)[: len(KEYS)], texts(lanes)[len(KEYS) :]
    assert prompt == list(KEYS)
    assert rest == [
        "answer",
        "before: where dec-cross-1.5 ($output) looks at each step, the right answer fed in",
        "red", "green", "→ red", "→ green",
        "after: B and A exchange their positions as seen by enc-self-0.5.v, enc-self-0.6.v ($question-broadcast)",
        "green", "red", "→ green", "→ red",
    ]  # fmt: skip


def test_cells_are_as_dark_as_the_attention_and_stand_under_their_tokens():
    _, lanes, _ = drawn(story())
    cells = [patch for patch in lanes.patches if isinstance(patch, Rectangle)][2:]  # the first two mark symbols
    assert len(cells) == 2 * 2 * len(KEYS)
    for lane, (changed, looks) in enumerate(((False, (6, 10)), (True, (10, 6)))):
        for step, key in enumerate(looks):
            row_of = cells[(2 * lane + step) * len(KEYS) :][: len(KEYS)]
            weights = {key: 0.8, 0: 0.2}
            for place, cell in enumerate(row_of):
                assert to_hex(cell.get_facecolor()) == to_hex(SHADES[changed](weights.get(place, 0.0)))
                token = lanes.texts[place].get_position()[0]
                assert cell.get_x() < token < cell.get_x() + cell.get_width()


def test_the_two_symbols_that_are_exchanged_are_marked_and_joined():
    _, lanes, _ = drawn(story())
    marks = [patch for patch in lanes.patches if isinstance(patch, Rectangle)][:2]
    bold = [place for place, text in enumerate(lanes.texts[: len(KEYS)]) if text.get_weight() == "bold"]
    assert bold == [0, 2]
    for place, mark in zip(bold, marks, strict=True):
        assert mark.get_x() < lanes.texts[place].get_position()[0] < mark.get_x() + mark.get_width()
    assert sum(isinstance(patch, FancyArrowPatch) for patch in lanes.patches) == 1


def test_bars_are_the_shares_that_follow_beside_control_and_ceiling():
    _, _, rates = drawn(story())
    names = ["before", "both", "changed in other heads (control)", "changed in the prompt (ceiling)"]
    assert [(name, end) for name, _, _, end, _ in bars(rates)] == list(zip(names, RATES.values(), strict=True))
    assert [colour for *_, colour in bars(rates)] == [MUTED, ACCENT, MUTED, MUTED]
    assert list(whiskers(rates).values()) == [pytest.approx((v - 0.04, v + 0.03)) for v in RATES.values()]
    assert texts(rates) == ["2.0%", "91.0%", "3.0%", "97.0%"]
    assert rates.get_title(loc="left") == "of 1,234 such questions: answers that follow the exchange"


def test_where_several_interventions_are_tried_each_names_its_heads():
    shown = story(edited={**HEADS, "one": ("enc-self-0.5.v",), "many": ("a.v", "b.v", "c.v")})
    more = [row(name, 0.5, measure="exact-match", against="counterfactual", of="") for name in ("one", "many")]
    _, _, rates = drawn(replace(shown, rows=[*shown.rows, *more]))
    names = [label.get_text() for label in rates.get_yticklabels()]
    assert names[1] == "both\nenc-self-0.5, enc-self-0.6"
    assert names[2:] == [
        "changed in other heads (control)", "changed in the prompt (ceiling)", "one\nenc-self-0.5", "many",
    ]  # fmt: skip


def test_values_of_a_counterpart_exchange_no_symbols():
    _, lanes, rates = drawn(story(recipe={"kind": "steer", "by": "counterpart"}))
    assert "after: both, changed at enc-self-0.5.v, enc-self-0.6.v ($question-broadcast)" in texts(lanes)
    assert not any(isinstance(patch, FancyArrowPatch) for patch in lanes.patches)
    assert rates.get_title(loc="left").endswith("answers that follow the change")


def test_no_text_leaves_the_picture():
    figure, lanes, rates = drawn(story())
    figure.draw_without_rendering()
    room = figure.bbox
    for text in (*lanes.texts, *rates.texts, *rates.get_yticklabels()):
        box = text.get_window_extent()
        assert room.x0 <= box.x0 <= box.x1 <= room.x1, text.get_text()


def test_a_result_without_attention_from_the_answer_shows_its_rates():
    whole = story()
    assert [kind for kind, *_ in drawings("story", whole)] == ["story"]
    encoder = [replace(one, queries=KEYS[:3]) for one in whole.of_kind(Pattern)]
    assert [kind for kind, *_ in drawings("story", replace(whole, details=encoder))] == ["rates"]
