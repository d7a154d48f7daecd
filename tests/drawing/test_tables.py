"""Tables for the terminal: nothing is cut off, and empty columns are left out."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from made import made_result, made_row

from steer.drawing.tables import comparison_parts, make_table, pairs, render, result_text
from steer.results.compare import compare_results
from steer.results.rows import own_warning, shared_warnings

LONG = "a condition with a name that no terminal of forty columns has room for in a single line"


def test_a_table_is_as_wide_as_it_is_where_there_is_no_terminal():
    text = render(make_table(("name", "number"), [(LONG, "1"), ("short", "23")], ("number",)))
    head, first, second = text.splitlines()
    assert first == f"{LONG}        1"
    assert len(head) == len(first) == len(second)  # aligned to the right
    assert head.split() == ["name", "number"]


def test_on_a_narrow_terminal_cells_are_folded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    text = render(make_table(("name", "number"), [(LONG.replace(" ", "-"), "1")]))
    assert "…" not in text
    lines = text.splitlines()
    assert len(lines) > 3
    assert "".join("".join(line.split()) for line in lines[1:]).replace("1", "") == LONG.replace(" ", "-")


def test_columns_that_are_empty_are_left_out():
    text = render(make_table(("a", "b", "c"), [("1", "", "x"), ("2", "", "")]))
    assert text.splitlines()[0].split() == ["a", "c"]


def test_text_that_looks_like_markup_is_printed_as_it_is():
    assert render("[bold]x[/bold] :smile:", pairs([("[rule]", "[red]")])).split() == [
        "[bold]x[/bold]", ":smile:", "[rule]", "[red]",
    ]  # fmt: skip


def test_no_two_rows_of_a_table_read_alike():
    """Answers that are written and answers that are fed in; the points of a sweep."""
    rows = [
        made_row(value, 0.0, 1.0, measure=measure, decoding=how, levels=(("seed", seed),))
        for measure, how, value in (
            ("exact-match", "forced", 0.9),
            ("exact-match", "greedy", 0.8),
            ("m", "forced", 0.7),
        )
        for seed in (3, 4)
    ]
    made = made_result(rows)
    other = made_result([replace(row, value=row.value / 2) for row in rows])
    table, short = result_text("mine", made, [], known=False), [line[:-3] for line in made.card().rows]
    side = compare_results(made, other)
    for value, name in ((0.9, "exact-match, forced"), (0.8, "exact-match, greedy"), (0.7, "m")):
        found = [line.split() for line in table.splitlines() if f" {value:.1%} " in line]
        assert [line[: line.index("answer")] for line in found] == [[seed, "clean", *name.split()] for seed in "34"]
        assert {line[1] for line in side.card().rows if line[3] == f"{value:.1%}"} == {name}
        assert render(*comparison_parts(side)).count(f" {name} ") == 2
    assert len(set(short)) == len(rows)
    tokens = [made_row(0.5, 0.4, 0.6, measure="r-squared", of="a.k", tokens=name) for name in ("colours", "symbols")]
    assert [line[1] for line in made_result(tokens).card().rows] == ["r-squared, at colours", "r-squared, at symbols"]


def test_only_a_warning_of_every_row_is_said_once_for_all():
    texts = ["few; odd", "odd; few", "few"]
    rows = [made_row(0.5, 0.4, 0.6, condition=text, warning=text) for text in texts]
    told = result_text("mine", made_result(rows), [], known=False)
    assert [line for line in told.splitlines() if line.startswith("warning: ")] == ["warning: few"]
    assert [own_warning(row, shared_warnings(rows)) for row in rows] == ["odd", "odd", ""]
    assert shared_warnings(rows[:1]) == ["few", "odd"]
    assert shared_warnings([*rows, made_row(0.5, 0.4, 0.6)]) == []


def test_a_result_shows_units_positions_chance_and_warnings():
    rows = [
        made_row(0.5, 0.4, 0.6, condition="a", of="dec-cross-1.1", position=2),
        made_row(1.5, 1.4, 1.6, condition="b", measure="logit-attribution"),
        made_row(0.3, 0.2, 0.4, condition="c", measure="r-squared", chance=0.1, tokens="colours", warning="few"),
    ]
    given = made_result(rows, figures=("positions",), ablation="zero", kind="compare", edited={"b": ("x.z",)})
    text = result_text("mine", given, [], known=False)
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert lines["a"].split()[-5:] == ["2", "50.0%", "40.0%", "to", "60.0%"]
    assert "1.500   1.400 to 1.600" in lines["b"]
    assert lines["c"].endswith("0.300   0.200 to 0.400   0.100 (at colours)   few")
    assert "ablated: zero" in text
    assert "edited in 'b': x.z" in text
    short = result_text("mine", made_result(rows), [], known=True)
    assert "50.0%" not in short  # one position alone
    assert "(already known)" in short


def test_the_ends_of_a_scale_are_not_listed_as_edited():
    rows = [made_row(0.5, 0.4, 0.6, condition="everything ablated"), made_row(0.5, 0.4, 0.6, condition="set")]
    edited = {"everything ablated": ("a.z",), "set": ("b.z",), "many": tuple("abcdefghijklmnop")}
    text = result_text("mine", made_result(rows, kind="ablate-set", edited=edited), [], known=False)
    assert [line for line in text.splitlines() if line.startswith("edited")] == ["edited in 'set': b.z"]


def test_heads_are_named_with_the_roles_that_they_play():
    heads = (("enc-self-0.5", "dec-cross-1.5"), ("enc-self-0.4", ""))
    rows = [made_row(0.5, 0.4, 0.6, condition=head, of=of) for head, of in heads]
    roles = {"output": ("dec-cross-1.5",), "question-broadcast": ("enc-self-0.5", "enc-self-0.6")}
    text = result_text("mine", made_result(rows, roles=roles), [], known=False)
    named, plain = text.splitlines()[-2:]
    assert named.startswith("enc-self-0.5 $question-broadcast ")
    assert " dec-cross-1.5 $output " in named
    assert "$" not in plain
