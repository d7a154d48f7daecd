"""The paper's claims: rules judged on numbers made by hand, and `steer reproduce` from end to end."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from conftest import write_roles
from made import made_result, made_row

from steer.base.shipped import recipe_names
from steer.experiments.api import build_recipe
from steer.experiments.given import checkpoint_of
from steer.paper import rules as claims
from steer.paper.claims import CLAIMS, ROLES, judge_all
from steer.paper.reproduce import fit, paper_recipes
from steer.paper.verdicts import AS, DIFFERS, NOT_SHOWN, OPEN, VERDICTS, Claim, Rule
from steer.recipe.load import load_recipe
from steer.results.files import read_result
from steer.results.result import Result
from steer.results.rows import Row

HEADS = {"output": ["dec-cross-1.5"], "primitive-pairing": ["enc-self-1.1"], "rhs-scanner": ["dec-cross-0.6"]}
HEADS |= {"primitive-retrieval": ["enc-self-1.0"], "function-retrieval": ["enc-self-1.2"]}


def row(value: float, spread: float = 0.01, **fields: object) -> Row:
    return made_row(value, value - spread, value + spread, **fields)


def result(*rows: Row) -> Result:
    return made_result(list(rows))


def sweep(measured: dict[str, float]) -> Result:
    return result(*(row(value, condition=name) for name, value in measured.items()))


ENDS = {"nothing ablated": 0.9, "everything ablated": 0.1}


@pytest.mark.parametrize(
    ("rule", "given", "verdict"),
    [
        (claims.exact_match, result(row(0.975, measure="exact-match")), AS),
        (claims.exact_match, result(row(0.965, measure="exact-match")), f"{DIFFERS}: below 98 %"),
        (claims.attribution, result(row(1, of="dec-cross-1.5"), row(0.9, of="dec-self-0.1")), AS),
        (
            claims.attribution, result(row(1, of="dec-cross-1.5"), row(0.99, of="dec-self-0.1")),
            f"{OPEN}: dec-self-0.1 writes as much",
        ),
        (claims.attribution, result(row(1, of="dec-cross-1.5"), row(9, of="dec-mlp-1")), AS),
        (claims.attribution, result(row(1, of="dec-cross-1.5"), row(9, of="dec.tok")), AS),
        (
            claims.attribution,
            result(row(1, of="dec-cross-1.5"), row(1.4, of="dec-self-0.1"), row(2, of="dec-cross-1.1")),
            f"{DIFFERS}: dec-cross-1.1 leads, the Output Head is number 3 of the heads",
        ),
        (claims.main_source("primitive-pairing"), sweep(ENDS | {"enc-self-1.1": 0.6, "enc-self-0.1": 0.3}), AS),
        (claims.main_source("primitive-pairing"), sweep(ENDS | {"enc-self-1.1": 0.6, "enc-mlp-1": 0.7}), AS),
        (
            claims.main_source("primitive-pairing"), sweep(ENDS | {"enc-self-1.1": 0.6, "enc-self-0.1": 0.61}),
            f"{OPEN}: enc-self-0.1 keeps as much",
        ),
        (
            claims.main_source("primitive-pairing"), sweep(ENDS | {"enc-self-1.1": 0.6, "enc-self-0.1": 0.7}),
            f"{DIFFERS}: enc-self-0.1 keeps more",
        ),
        (
            claims.main_source("primitive-pairing"), sweep(ENDS | {"enc-self-1.1": 0.1, "enc-self-0.1": 0.1}),
            f"{DIFFERS}: enc-self-1.1 alone keeps no more than is kept with everything ablated",
        ),
        (
            claims.needed_sources(("primitive-retrieval", "function-retrieval")),
            sweep(ENDS | {"enc-self-1.0": 0.5, "enc-self-1.2": 0.6, "enc-self-1.1": 0.9}), AS,
        ),
        (
            claims.needed_sources(("primitive-retrieval", "function-retrieval")),
            sweep(ENDS | {"enc-self-1.0": 0.5, "enc-self-1.2": 0.9, "enc-self-1.1": 0.8}),
            f"{DIFFERS}: of the two, only enc-self-1.0 matters here",
        ),
        (
            claims.needed_sources(("primitive-retrieval", "function-retrieval")),
            sweep(ENDS | {"enc-self-1.0": 0.5, "enc-self-1.2": 0.6, "enc-self-1.1": 0.2}),
            f"{DIFFERS}: enc-self-1.1 costs more",
        ),
        (
            claims.needed_sources(("primitive-retrieval", "function-retrieval")),
            sweep(ENDS | {"enc-self-1.0": 0.9, "enc-self-1.2": 0.9, "enc-self-1.1": 0.8}),
            f"{DIFFERS}: ablating enc-self-1.0 or enc-self-1.2 alone costs nothing",
        ),
        (claims.main_source("question-broadcast"), sweep(ENDS), f"{NOT_SHOWN}: this checkpoint has no head for"),
        (
            claims.main_source("rhs-scanner"), sweep({"nothing ablated": 0.7, "everything ablated": 0.7}),
            f"{DIFFERS}: ablating every source costs nothing",
        ),
        (claims.main_source("primitive-pairing"), sweep(ENDS | {"enc-self-0.1": 0.1}), f"{NOT_SHOWN}: enc-self-1.1"),
    ],
)  # fmt: skip
def test_verdicts_on_counts(rule, given: Result, verdict: str):
    assert judged(rule, given).startswith(verdict)


def judged(rule: Rule, given: Result) -> str:
    return Claim("1", "r", "c", "p", rule).judge(given, HEADS).verdict


def r2(value: float, spread: float = 0.01, null: float = 0.02, condition: str = "clean") -> Row:
    return row(value, spread, condition=condition, measure="r-squared", of="dec-cross-1.5.k", chance=null)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.4, AS),
        (0.105, f"{OPEN}: above chance, about 0.1"),
        (0.05, f"{DIFFERS}: above chance, but only 5.0% of the variance"),
        (0.02, f"{DIFFERS}: not above chance"),
    ],
)
def test_verdicts_on_structure(value: float, verdict: str):
    assert judged(claims.carries("output", "k"), result(r2(value))) == verdict


@pytest.mark.parametrize(
    ("rule", "before", "after", "verdict"),
    [
        (claims.erased, 0.4, 0.01, AS),
        (claims.erased, 0.4, 0.02, f"{OPEN}: 5% of it is left"),
        (claims.erased, 0.4, 0.08, f"{DIFFERS}: 20% of it is left"),
        (claims.lowered, 0.4, 0.1, AS),
        (claims.lowered, 0.4, 0.2, f"{OPEN}: lowered, but 50% of it is left"),
        (claims.lowered, 0.4, 0.37, f"{DIFFERS}: lowered, but 92% of it is left"),
        (claims.lowered, 0.4, 0.39, f"{DIFFERS}: not lowered beyond the intervals"),
        (claims.survives, 0.4, 0.22, AS),
        (claims.survives, 0.4, 0.2, f"{OPEN}: only 50% of it is left"),
        (claims.survives, 0.4, 0.04, f"{DIFFERS}: only 10% of it is left"),
        (claims.survives, 0.4, 0.025, f"{DIFFERS}: not above chance any more"),
        (claims.erased, 0.01, 0.0, f"{NOT_SHOWN}: not above chance to begin with"),
        (claims.survives, 0.01, 0.4, f"{NOT_SHOWN}: not above chance to begin with"),
    ],
)
def test_verdicts_on_ablations(rule, before: float, after: float, verdict: str):
    change = claims.changed("output", "k", "off", rule)
    assert judged(change, result(r2(before), r2(after, condition="off"))) == verdict


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [((0.7, 0.1), (0.1, 0.7), AS), ((0.7, 0.1), (0.7, 0.1), DIFFERS), ((0.7, 0.1), (0.45, 0.4), DIFFERS)],
)
def test_attention_must_change_sides(before: tuple[float, float], after: tuple[float, float], verdict: str):
    rows = []
    for condition, pair in (("before", before), ("after", after)):
        for against, value in zip(("answer", "counterfactual"), pair, strict=True):
            rows.append(row(value, condition=condition, measure="attention-mass", against=against))
    assert judged(claims.attention_follows, result(*rows)).startswith(verdict)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (0.3, AS),
        (0.495, f"{OPEN}: about half"),
        (0.9, f"{DIFFERS}: goes further"),
        (0.0, f"{DIFFERS}: no more answers follow"),
    ],
)
def test_answers_must_follow_at_all(after: float, verdict: str):
    rows = [
        row(v, condition=c, measure="exact-match", against="counterfactual")
        for c, v in (("before", 0), ("after", after))
    ]
    assert judged(claims.answers_follow, result(*rows)).startswith(verdict)


@pytest.mark.parametrize(
    ("places", "verdict"),
    [
        ((0.95, 0.92, 0.92), AS),
        ((0.95, 0.85, 0.91), f"{DIFFERS}: not above 90 % at position 2"),
        ((0.895, 0.95, 0.92), f"{OPEN}: the interval meets 90 % at position 1"),
    ],
)
def test_attention_must_be_right_at_each_position(places: tuple[float, ...], verdict: str):
    rows = [row(value, position=n) for n, value in enumerate(places, 1)]
    rows = [replace(r, measure="attention-accuracy", of="dec-cross-1.5") for r in [*rows, row(0.9)]]
    assert judged(claims.attention_accuracy, result(*rows)) == verdict


@pytest.mark.parametrize(
    ("own", "above", "verdict"),
    [
        (5, 0.6, AS),
        (5, 0.5, f"{OPEN}: about half of the tokens"),
        (5, 0.4, f"{DIFFERS}: on average only, 40.0% of the tokens are above the null"),
        (0, 0.02, f"{DIFFERS}: no alignment"),
    ],
)
def test_alignment_is_judged_against_the_null(own: float, above: float, verdict: str):
    rows = [row(own, measure="ov-alignment", against="own row"), row(0, measure="ov-alignment", against="other rows")]
    rows.append(row(above, measure="ov-above-null", against="other rows"))
    assert judged(claims.alignment, result(*(replace(r, of="dec-cross-1.5") for r in rows))) == verdict


def test_every_recipe_of_the_paper_is_judged_or_shown():
    names = {path.stem for path in paper_recipes()}
    assert {claim.recipe for claim in CLAIMS} <= names
    assert names - {claim.recipe for claim in CLAIMS} == {"fig02b_output_pattern", "fig_patterns"}
    assert {f"paper/{name}" for name in names - {"swap_index"}} == {n for n in recipe_names() if n.startswith("paper/")}


def test_nothing_known_is_said_of_every_claim():
    table = judge_all({}, {}, {})
    assert len(table) == len(CLAIMS) + len(ROLES)
    assert all(line.verdict.startswith((NOT_SHOWN, f"{DIFFERS}: no head plays it")) for line in table)


# The command


def test_reproduce_writes_figures_claims_and_an_index(steer, cast: Path, tmp_path: Path):
    out = tmp_path / "out"
    told = json.loads(steer("reproduce", "-c", cast, "--episodes", 12, "--out", out, "--json").stdout)
    assert list(told["pictures"]) == [path.stem for path in paper_recipes()]
    pictures = [Path(picture) for found in told["pictures"].values() for picture in found]
    assert all(picture.suffix == ".png" and picture.is_file() for picture in pictures)
    page = (out / "index.html").read_text()
    assert page.count("<img ") == len(pictures)
    links = re.findall(r"(?:src|href)=\"(?!data:)([^\"]+)", page)
    named = set(re.findall(r" id=\"([^\"]+)\"", page))
    assert {link[1:] for link in links if link.startswith("#")} <= named
    files = [link for link in links if not link.startswith("#")]
    assert files
    assert all((out / file).is_file() for file in files)
    assert not re.search(r"<script[^>]+src", page)  # nothing is fetched
    with (out / "claims.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["claim"] for line in lines] == [claim["claim"] for claim in told["claims"]]
    assert all(claim["verdict"] and unescape(page).count(claim["here"]) for claim in told["claims"])
    words = unescape(re.sub("</?code>", "`", page))  # code in a sentence is code on the page
    assert all(line["rule"] and line["rule"] in words for line in lines)
    assert {line["outcome"] for line in lines} <= set(VERDICTS)
    assert all(line["verdict"].startswith(line["outcome"]) for line in lines)
    quick = "quick look: 12 episodes at most for each recipe"
    assert {line["status"] for line in lines} == {quick}
    assert quick in page
    assert json.loads((out / "claims.json").read_text())["claims"] == told["claims"]
    kinds = [claim["verdict"].startswith(AS) for claim in told["claims"]]
    assert f"{len(kinds)} claims: {sum(kinds)} as in the paper" in page
    swapped = read_result(out / "swap_index")
    assert swapped.provenance.examples == 12
    for name in ("fig02d_ov_alignment", "fig10_relative_index", "swap_index"):
        assert steer("draw", out / name).exit_code == 0


@pytest.mark.usefixtures("png_only")
def test_a_missing_role_is_told_and_stops_nothing(steer, cast: Path, tmp_path: Path):
    folder = tmp_path / "odd <name>"
    shutil.copytree(cast, folder)
    write_roles(folder, {"output": ["dec-cross-1.4"], "rhs-scanner": ["dec-cross-0.0"]})
    asked = ["reproduce", "--checkpoint", folder, "--episodes", 12, "--out", tmp_path / "out", "--json"]
    told = json.loads(steer(*asked).stdout)
    verdicts = {claim["claim"]: claim["verdict"] for claim in told["claims"]}
    assert verdicts["a head plays the role output"].startswith(AS)
    assert verdicts["a head plays the role primitive-pairing"] == f"{DIFFERS}: no head plays it"
    missing = verdicts["Primitive-Pairing is the main head into its K"]
    assert missing.startswith(f"{NOT_SHOWN}: this checkpoint has no head for the role $primitive-pairing")
    assert "$function-retrieval" in verdicts["without Function-Retrieval it is disrupted in RHS-Scanner Z"]
    relative = read_result(tmp_path / "out" / "fig10_relative_index")
    assert {row.condition for row in relative.rows} == {"clean", "RHS-Scanners ablated"}
    assert told["pictures"]["fig05b_k_chain"] == []
    page = (tmp_path / "out" / "index.html").read_text()
    assert "odd &lt;name&gt;" in page
    assert "<name>" not in page


@pytest.mark.parametrize(
    ("others", "ablated"),
    [({}, ["enc-self-1.1"]), ({"primitive-retrieval": ["enc-self-1.0"]}, ["enc-self-1.1", "enc-self-1.0"])],
)
def test_pairing_is_ablated_with_the_head_that_retrieves_if_there_is_one(
    cast: Path, tmp_path: Path, others: dict[str, list[str]], ablated: list[str]
):
    """As in the paper, whose Enc-self-1.0 does both."""
    folder = tmp_path / "other"
    shutil.copytree(cast, folder)
    write_roles(folder, {"output": ["dec-cross-1.4"], "primitive-pairing": ["enc-self-1.1"]} | others)
    checkpoint = checkpoint_of(folder)
    fitted, _ = fit(load_recipe("paper/fig06_index_in_question"), checkpoint)
    runs = [run for run in fitted.lower(checkpoint.names).plan.runs if run.condition == "Primitive-Pairing ablated"]
    assert [str(edit.site) for run in runs for edit in run.edits] == [f"{head}.z" for head in ablated]


@pytest.mark.parametrize(("asked", "shown"), [(None, 1_000), (50, 50), (5_000, 1_000)])
def test_a_recipe_is_fitted_to_fewer_episodes_never_to_more(cast: Path, asked: int | None, shown: int):
    loaded = build_recipe(kind="clean", measures=[{"name": "exact-match"}], episodes={"count": 1_000})
    fitted, lost = fit(loaded, checkpoint_of(cast), asked)
    assert (fitted.recipe.episodes.count, lost) == (shown, ())


@pytest.mark.usefixtures("png_only")
def test_other_questions_are_asked_of_every_recipe(steer, cast: Path, tmp_path: Path):
    asked = ["reproduce", "-c", cast, "episodes.split=strict", "episodes.overlap=false", "--episodes", 10]
    told = json.loads(steer(*asked, "--out", tmp_path, "--json").stdout)
    assert {claim["status"].partition("; ")[2] for claim in told["claims"]} == {"; ".join(asked[3:5])}
    results = [read_result(path.parent) for path in tmp_path.glob("*/result.json")]
    said = [result.provenance.recipe["episodes"] for result in results]
    assert len(said) == len(paper_recipes())
    assert all((one["split"], one["overlap"]) == ("strict", False) for one in said)
    page = unescape((tmp_path / "index.html").read_text())
    assert "swap_index checkpoint=cast episodes.split=strict episodes.overlap=false episodes.count=10" in page


@pytest.mark.usefixtures("png_only")
def test_an_unknown_circuit_leaves_what_needs_no_roles(steer, tmp_path: Path):
    told = json.loads(steer("reproduce", "--checkpoint", "tiny", "--episodes", 10, "--out", tmp_path, "--json").stdout)
    shown = {name for name, pictures in told["pictures"].items() if pictures}
    assert shown == {"accuracy", "fig02a_logit_attribution"}
    assert any("steer discover" in claim["verdict"] for claim in told["claims"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--checkpoint", "sed1"], "did you mean seed1"), (["--device", "cuda:77"], "no device named"),
     (["--out", "FILE"], "cannot make the folder"),
     (["kind=clean"], "changes which questions are asked"), (["episodes.overlap"], "changes which questions are asked"),
     (["episodes.split=stric"], "episodes.split")],
)  # fmt: skip
def test_bad_calls_are_answered(steer, tmp_path: Path, monkeypatch, arguments: list[str], says: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("")
    done = steer("reproduce", *arguments)
    assert done.exit_code == 2
    assert says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]
