"""What only the data can tell: nothing that was edited arrives, and the row says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from nothing import ANSWERS, ATTENTION, SMALL_NAMES, random_model, small
from rig import make_engine

from steer.anatomy.nodes import Node, Site
from steer.base.errors import ConfigError, SteerError
from steer.engine.session import Inputs, Session
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.measures.arrived import NOTHING_ARRIVED, Arrived
from steer.measures.explained import explained
from steer.models.checkpoint import load_checkpoint
from steer.recipe.lower import lower
from steer.tasks.compositional.splits import make_splits

STEERED = {"kind": "steer", "variable": "argument", "no_control": "whether anything arrives is asked, not what it does"}


def test_places_beyond_every_prompt_edit_nothing():
    keys = {"kind": "ablate-set", "nodes": "enc-self-0.0", "measures": ANSWERS, "episodes": {"count": 4}}
    with pytest.raises(SteerError, match="no sequence has a place 63"):
        small(**keys, places=[63, 64])
    answers = {"kind": "ablate-set", "nodes": "dec-self-0.0", "measures": ANSWERS, "places": [5]}
    with pytest.raises(SteerError, match="no sequence has a place 5"):
        small(**answers, episodes={"count": 4, "length": [1, 2]})  # the decoder reads three tokens at most
    rows = small(**keys, places=[2, 64]).rows
    assert {row.condition: row.warning for row in rows} == {
        "nothing ablated": "",
        "set ablated": "no sequence has a place 64",
    }


def test_the_mean_of_the_one_episode_that_fits_is_no_ablation():
    """The recipe asks for many, and one is there: known only once the episodes are."""
    engine = make_engine(random_model())
    one, two = make_splits(0).test[:1], make_splits(0).test[:2]

    def plan(**ablation: str):
        keys = {"kind": "ablate-set", "nodes": "enc-self-0.0", "measures": ANSWERS, "ablation": ablation}
        return lower(build_recipe(**keys).recipe, SMALL_NAMES).plan

    with pytest.raises(SteerError, match="mean over one episode"):
        Session(engine, plan(), Inputs(one))
    Session(engine, plan(over="token"), Inputs(one))
    Session(engine, plan(reference="train"), Inputs(one, reference=two))


def test_r_squared_of_few_points_or_one_label_carries_a_warning():
    keys = {"kind": "clean", "measures": [
        {"name": "r-squared", "site": "enc-self-0.0.z", "label": "index-in-question", "tokens": "symbols"}
    ]}  # fmt: skip
    (few,) = small(**keys, episodes={"count": 3, "arity": 2}).rows
    assert few.warning == "R² of few points: only 3 of the rarest label"
    (one,) = small(**keys, episodes={"count": 30, "arity": 1}).rows
    assert "single label" in one.warning
    (enough,) = small(**keys, episodes={"count": 30, "arity": 2}).rows
    assert not enough.warning
    points, episodes = torch.rand(40, 3).double().numpy(), torch.arange(40).numpy()
    assert explained(points, episodes % 2, episodes).warning == ""
    assert "only 3 of the rarest" in explained(points, (episodes < 3).astype(int), episodes).warning


def test_a_warning_stands_in_the_table_the_figure_and_the_rows(steer, tmp_path: Path):
    asked = ["run", "paper/fig06_index_in_question", "episodes.count=3", "--out", tmp_path / "out", "--format", "svg"]
    done = steer(*asked)
    assert "R² of few points" in done.output
    picture = next((tmp_path / "out").glob("*/figure.svg")).read_text()
    assert "Warning: R² of few points" in picture
    assert "cannot" in picture  # the panel of what an ablation cannot change
    assert "R² of few points" in next((tmp_path / "out").glob("*/rows.csv")).read_text()


def test_a_checkpoint_is_still_measured_where_nothing_is_edited():
    rows = run_experiment(
        build_recipe(kind="clean", measures=ANSWERS, episodes={"count": 1}), load_checkpoint("tiny")
    ).rows
    assert [row.condition for row in rows] == ["clean"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        # place 4 of every two-argument prompt is the bar; the first token that the decoder reads is always SOS
        ({"kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": "enc.tok", "places": [4]}, True),
        ({"kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": "enc.tok", "places": [5]}, False),
        ({"kind": "ablate-set", "nodes": "dec-self-0.*", "places": [1]}, True),
        ({"kind": "ablate-set", "nodes": "dec-self-0.*", "places": [2]}, False),
        # a swap changes nothing where it does not reach
        (STEERED | {"sets": [{"name": "s", "sites": "enc.tok"}]}, False),
        ({"kind": "position-swap", "ports": "enc-self-0.0.v", "places": [1]}, False),
    ],
)
def test_what_only_the_data_can_tell_is_a_warning(keys: dict, says: bool):
    rows = small(**{"measures": ATTENTION, "episodes": {"arity": 2, "count": 8}} | keys).rows
    edited = [
        row for row in rows if row.condition not in ("nothing ablated", "before", "ceiling", "everything ablated")
    ]
    assert edited
    assert {row.warning.startswith("the same as in the clean run") for row in edited} == {says}
    assert not any(row.warning for row in rows if row.condition in ("nothing ablated", "before", "ceiling"))


def test_positions_that_are_exchanged_elsewhere_than_edited_are_a_fault():
    keys = {"kind": "position-swap", "ports": "enc-self-0.0.v", "places": [6], "measures": ATTENTION}
    with pytest.raises(
        ConfigError, match="tokens: none of 8 examples can be used: 8 in which nothing is exchanged at 6"
    ):
        small(**keys, episodes={"arity": 2, "count": 8})


def test_steering_without_a_control_is_warned_of_unless_it_says_why():
    keys = {"measures": ATTENTION, "episodes": {"arity": 2, "count": 8}, "sets": [{"name": "s", "sites": "enc.tok"}]}
    for reason, warned in (("", True), ("  ", True), ("there are no other embeddings", False)):
        rows = small(**STEERED | keys | {"no_control": reason}).rows
        assert {"no other heads are changed beside these" in row.warning for row in rows} == {warned}
    controlled = keys | {"control": "s", "sets": [{"name": "s", "sites": "enc-self-0.1.z"}]}
    rows = small(kind="steer", variable="argument", **controlled).rows
    assert "control" in {row.condition for row in rows}
    assert not any(row.warning for row in rows if row.condition == "s")


def test_a_head_that_cannot_see_it_is_warned_of_beside_one_that_can():
    keys = {"kind": "ablate-set", "nodes": "dec-cross-0.0", "episodes": {"count": 4}}
    rows = small(**keys, measures=[{"name": "attention-mass", "heads": ["dec-cross-0.1", "dec-cross-1.0"]}]).rows
    warned = {(row.condition, row.of) for row in rows if row.warning.startswith("the same as in the clean run")}
    assert warned == {("set ablated", "dec-cross-0.1")}


def unmoved(measure: str, **keys: str) -> tuple[set[str], set[str]]:
    """What the rows of an ablated MLP in the decoder's second layer are about: with a warning, and without."""
    result = small(kind="ablate-set", nodes="dec-mlp-1", episodes={"count": 4}, measures=[{"name": measure} | keys])
    found: tuple[set[str], set[str]] = (set(), set())
    for row in result.rows:
        if row.condition == "set ablated":
            found[not row.warning.startswith("the same as in the clean run")].add(row.of)
        assert row.condition == "set ablated" or not row.warning
    return found


def test_a_point_of_the_stream_before_the_edit_is_warned_of():
    points = {str(site) for site in SMALL_NAMES.layout.points if str(site).startswith("dec")}
    after = {"dec-resid-1.post", *(point for point in points if point.startswith("dec-resid-2"))}
    assert unmoved("logit-lens") == (points - after, after)


def test_a_component_that_writes_before_the_edit_is_warned_of():
    """A share of the logit is of one write, at the clean scale; a share of variance is of the whole stream's."""
    writes = {str(node) for node in SMALL_NAMES.layout.nodes if SMALL_NAMES.layout.reaches_logits(node)}
    after = {"dec-mlp-1", "constant", *(node for node in writes if "-2" in node)}
    assert unmoved("logit-attribution") == (writes - after, after)
    assert unmoved("logit-attribution", definition="authors") == (set(), writes)


def test_a_chains_places_are_warned_of_as_well():
    keys = {"kind": "chained-patch", "sources": "enc-self-0.0", "measures": ATTENTION, "episodes": {"count": 5}}
    for chain in (["dec-cross-1.0.k"], ["enc-self-1.0.v", "dec-cross-1.0.k"]):
        rows = small(**keys, chain=chain, places=[1, 64]).rows
        warned = {row.condition for row in rows if "no sequence has a place 64" in row.warning}
        assert warned == {"everything ablated", "enc-self-0.0"}, chain


def test_written_answers_have_no_row_where_nothing_can_arrive_either():
    sets = [{"name": "held", "sites": "dec-cross-1.0.k"}, {"name": "free", "sites": "enc-self-0.0.z"}]
    keys = {"kind": "steer", "variable": "argument", "episodes": {"arity": 2, "count": 4}, "sets": sets}
    greedy = {"name": "exact-match", "decoding": "greedy", "against": "answer"}
    rows = small(**keys, freeze="dec-cross-1.0.z", measures=[*ATTENTION, greedy]).rows
    found = {(row.condition, row.measure) for row in rows}
    assert ("held", "attention-mass") in found
    assert ("held", "exact-match") not in found
    assert ("free", "exact-match") in found


def test_steps_that_are_not_counted_do_not_count():
    """Answers of two colours: the third step says EOS, which attention is not held to."""
    keys = {"kind": "ablate-set", "nodes": "dec-cross-0.*", "episodes": {"arity": 2, "count": 8, "length": [2, 2]}}
    late = small(**keys, places=[3], measures=ATTENTION).rows
    assert {row.condition for row in late if row.warning} == {"set ablated"}
    assert not any(row.warning for row in small(**keys, places=[2], measures=ATTENTION).rows)


def test_places_of_a_pattern_are_those_that_look():
    keys = {"kind": "steer", "variable": "argument", "episodes": {"arity": 2, "count": 4}, "places": [1]}
    site = "dec-cross-1.0.pattern"
    found = small(**keys, sets=[{"name": "s", "sites": site}], measures=ATTENTION, tensors=site).tensors
    before, after, theirs = (found[f"{name}/{site}"] for name in ("before", "s", "ceiling"))  # B T S
    assert torch.equal(after[:, 1:], before[:, 1:])
    torch.testing.assert_close(after[:, 0], theirs[:, 0], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 0], before[:, 0])


def test_batches_of_one_engine_are_those_of_the_answers_given():
    """`ask` shows the same prompt with the answer before and the answer after: two batches, not one remembered."""
    engine, episode = make_engine(random_model()), make_splits(0).test[0]
    other = replace(episode, answer=episode.answer[::-1] + episode.answer)
    first, second = (engine.batches([e])[0].tokens["answer"] for e in (episode, other))
    assert first.shape[1] == len(episode.answer) + 1
    assert second.shape[1] == 2 * len(episode.answer) + 1


@pytest.mark.parametrize(("changes", "says"), [((1.0, 0.0), ""), ((0.0, 1.0), ""), ((0.0, 0.0), NOTHING_ARRIVED)])
def test_what_arrives_in_one_batch_arrives(changes: tuple[float, ...], says: str):
    """A later batch that is left as it was does not take back what an earlier one showed."""
    seen = SimpleNamespace(measures=[SimpleNamespace(compared=lambda setting, batch, value: value)])
    arrived, site = Arrived(seen, [(Site(Node("logits")),)], "clean"), Site(Node("logits"))
    for change in changes:
        arrived.add(None, "clean", {site: torch.ones(3)}, [0])
        arrived.add(None, "edited", {site: torch.ones(3) + change}, [0])
    assert arrived.warning("edited", 0) == says
