"""Directions that are found: differences of means, components and probes, by hand from the activations themselves."""

from __future__ import annotations

from json import dumps
from pathlib import Path

import numpy as np
import pytest
import torch
from by_hand_net import forward, ids
from safetensors.torch import save_file
from small import ask, net_of, of_arity, talker

import steer
from steer.base.errors import SteerError
from steer.base.shipped import RECIPES
from steer.experiments.direction import Points, Wanted, _from_points, find_direction, from_sae
from steer.results.directions import About, Direction, random_like, read_direction, write_direction
from steer.results.provenance import Weights
from steer.tasks.compositional.counterparts import counterpart

MODEL = talker()
NET = net_of(MODEL)
SITE, LABEL = "enc-self-0.1.z", "index-in-question"
EPISODES = of_arity(2, 12)


def seen(prompt: tuple[str, ...]) -> np.ndarray:
    return forward(NET, ids(prompt), ids(("SOS",)), {})[SITE].numpy()


def colours_by_index() -> dict[int, list[np.ndarray]]:
    """The site at each `red` of an assignment `A = red`, by the place of A in the question."""
    found: dict[int, list[np.ndarray]] = {}
    for prompt in (episode.prompt for episode in EPISODES):
        end = prompt.index("|")
        asked = prompt[:end]
        question = {symbol: place + 1 for place, symbol in enumerate(asked) if asked.count(symbol) == 1}
        items = " ".join(prompt[end + 1 : -1]).split(" | ")
        start = end + 1
        for item in (one.split() for one in items):
            if len(item) == 3 and item[0] in question:
                found.setdefault(question[item[0]], []).append(seen(prompt)[start + 2])
            start += len(item) + 1
    return found


def test_a_difference_is_of_the_means_of_two_groups():
    groups = colours_by_index()
    assert set(groups) == {1, 3}
    wanted = np.mean(groups[3], axis=0) - np.mean(groups[1], axis=0)
    found = find_direction(MODEL, Wanted(SITE, "difference", LABEL, "colours"), EPISODES)
    np.testing.assert_allclose(found.rows, wanted[None], atol=1e-9)
    turned = find_direction(MODEL, Wanted(SITE, "difference", LABEL, "colours", (3, 1)), EPISODES)
    np.testing.assert_allclose(turned.rows, -wanted[None], atol=1e-9)
    assert found.about.site == SITE
    assert found.about.words == f"{LABEL} 3 minus 1"
    assert found.about.scores == {"norm": pytest.approx(float(np.linalg.norm(wanted)))}


def test_between_worlds_it_is_the_counterpart_less_the_example():
    pairs = [(one, other) for one in EPISODES if (other := counterpart(one, LABEL))]
    moved = np.concatenate([seen(other.prompt) - seen(one.prompt) for one, other in pairs])
    found = find_direction(MODEL, Wanted(SITE, "difference", variable=LABEL), EPISODES)
    np.testing.assert_allclose(found.rows, moved.mean(0)[None], atol=1e-9)


def test_components_are_those_of_the_centred_points():
    points = np.concatenate([each for _, each in sorted(colours_by_index().items())])
    _, sizes, axes = np.linalg.svd(points - points.mean(0), full_matrices=False)
    found = find_direction(MODEL, Wanted(SITE, "principal", LABEL, "colours", rows=2), EPISODES)
    np.testing.assert_allclose(np.abs(found.rows @ axes[:2].T), np.eye(2), atol=1e-9)
    shares = sizes**2 / (sizes**2).sum()
    assert list(found.about.scores.values()) == pytest.approx(list(shares[:2]))


def spread(strength: float, examples: int = 120) -> Points:
    """Two points of each example, labelled 0 and 1, in either order; one feature tells the label, as far as it does."""
    rng = np.random.default_rng(1)
    labels = np.concatenate([rng.permutation(2) for _ in range(examples)])
    values = rng.standard_normal((2 * examples, 6))
    values[:, 4] += strength * (2 * labels - 1)
    return Points(values, labels, np.repeat(np.arange(examples), 2))


def test_a_probe_is_judged_on_what_it_has_not_seen():
    """With more features than points it knows its own points by heart, and nothing of others."""
    rows, _, scores = _from_points(spread(3.0), Wanted(SITE, "probe", "a label"))
    assert abs(rows[0, 4]) > 3 * np.abs(np.delete(rows[0], 4)).max()
    assert scores["held-out accuracy"] > 0.95
    assert scores["labels exchanged"] < 0.7
    assert 0.4 < scores["most common label"] < 0.6
    noise = np.random.default_rng(2).standard_normal((240, 400))
    known = Points(noise, spread(0.0).labels, spread(0.0).owners)
    assert _from_points(known, Wanted(SITE, "probe", "a label"))[2]["held-out accuracy"] < 0.7


def test_a_probe_is_judged_on_whole_examples_drawn_at_random():
    """Two tokens of an example are alike and have one label: who knows one of them knows the other."""
    owners = np.repeat(np.arange(100), 2)
    noise = np.random.default_rng(6).standard_normal((100, 300))[owners]
    alike = Points(noise, np.random.default_rng(7).integers(0, 2, 100)[owners], owners)
    assert _from_points(alike, Wanted(SITE, "probe", "a label"))[2]["held-out accuracy"] < 0.75
    sorted_labels = Points(noise, (owners > 50).astype(np.int64), owners)  # the last examples have another label
    assert 0.3 < _from_points(sorted_labels, Wanted(SITE, "probe", "a label"))[2]["most common label"] < 0.7


def test_the_most_common_label_is_judged_on_the_same_examples_as_the_probe():
    """Ten examples of one token each: a probe is judged on three of them."""
    labels = np.array([0] * 6 + [1] * 4)
    points = Points(np.random.default_rng(4).standard_normal((10, 3)), labels, np.arange(10))
    rates = [_from_points(points, Wanted(SITE, "probe", "a", seed=seed))[2]["most common label"] for seed in range(6)]
    assert [3 * rate for rate in rates] == pytest.approx([round(3 * rate) for rate in rates])
    assert len({*rates}) > 1


def test_a_difference_is_of_the_lowest_and_the_highest_value():
    labels = np.array([2, 7, 1, 2, 7, 1])
    values = np.random.default_rng(5).standard_normal((6, 3))
    (row,), words, scores = _from_points(Points(values, labels, np.arange(6)), Wanted(SITE, "difference", "a"))
    np.testing.assert_allclose(row, (values[[1, 4]] - values[[2, 5]]).mean(0))
    assert words == "a 7 minus 1"
    assert scores["norm"] == pytest.approx(np.linalg.norm(row))


FAULTS = {
    "no label named 'index'": Wanted(SITE, "difference", "index"),
    "two values of index-in-question that occur": Wanted(SITE, "difference", LABEL, values=(1, 9)),
    "from 1 to 5 components": Wanted(SITE, "principal", LABEL, rows=6),
    "counterparts give a difference, no probe": Wanted(SITE, "probe", variable=LABEL),
    "no variable named 'index'": Wanted(SITE, "difference", variable="index"),
    "has no features of its own": Wanted("enc-self-0.1.pattern", "difference", LABEL),
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
def test_what_cannot_be_found_is_a_fault(text: str):
    with pytest.raises(SteerError, match=text):
        find_direction(MODEL, FAULTS[text], EPISODES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sparse autoencoder's folder with the keys that SAELens writes: 7 features of 4 dimensions."""
    weights = {"W_enc": torch.zeros(4, 7), "W_dec": torch.arange(28.0).view(7, 4), "b_dec": torch.ones(4)}
    meta = {"model_name": "made", "hook_name": "blocks.0.hook_resid_post"}
    (tmp_path / "sae").mkdir()
    save_file(weights, tmp_path / "sae" / "sae_weights.safetensors")
    config = {"architecture": "standard", "d_in": 4, "d_sae": 7, "dtype": "float32", "metadata": meta}
    (tmp_path / "sae" / "cfg.json").write_text(dumps(config))
    return tmp_path / "sae"


def test_a_row_of_a_sparse_autoencoder(folder: Path):
    found = from_sae(folder, 2)
    assert found.rows.tolist() == [[8.0, 9.0, 10.0, 11.0]]
    assert (found.about.way, found.about.site) == ("sae", "blocks.0.hook_resid_post")
    assert found.about.words == "feature 2 of sae (made, blocks.0.hook_resid_post)"
    steer.direction(folder / "row", sae=folder, feature=6)
    assert read_direction(folder / "row").rows.tolist() == [[24.0, 25.0, 26.0, 27.0]]
    with pytest.raises(SteerError, match="has features 0 to 6, not 7"):
        from_sae(folder, 7)
    with pytest.raises(SteerError, match="says itself where its rows belong"):
        steer.direction(sae=folder, site=SITE)
    (folder / "cfg.json").write_text(dumps({"d_in": 7, "d_sae": 4}))
    with pytest.raises(SteerError, match=r"W_dec has the shape \(7, 4\), cfg.json says \(4, 7\)"):
        from_sae(folder, 0)
    (folder / "cfg.json").write_text("{}}")
    with pytest.raises(SteerError, match="is not a folder of a sparse autoencoder"):
        from_sae(folder, 0)


def used(path: Path, about: About, site: str, size: int = 5):
    """A recipe that adds a direction of this provenance at a site."""
    write_direction(Direction(np.ones((1, size)), about), path / "row")
    edits = [{"sites": site, "add": {"direction": str(path / "row")}}]
    return ask(
        MODEL, EPISODES[:2], kind="intervene", episodes={"arity": 2}, conditions=[{"name": "added", "edits": edits}],
        measures=[{"name": "token-accuracy"}],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("way", "home", "site"),
    [
        ("difference", SITE, "enc-self-0.2.z"),  # heads share no features
        ("align", "enc-resid-0.mid", "enc-resid-1.mid"),
        ("sae", "enc-mlp-0", "enc-mlp-1"),
        ("difference", "dec-mlp-0", "enc-mlp-0"),  # another stream
        ("difference", "enc.memory", "enc-resid-1.mid"),  # behind a norm
    ],
)
def test_a_direction_of_another_site_is_a_fault(tmp_path: Path, way, home: str, site: str):
    size = 5 if "self" in site else 16
    with pytest.raises(SteerError, match=f"conditions.0.edits.0.add.direction: .*was found at {home}, and {site} has"):
        used(tmp_path, About(way=way, site=home, scores={}), site, size)


def test_in_one_stream_a_direction_may_be_used_elsewhere(tmp_path: Path):
    about = About(way="difference", site="enc-resid-0.mid", scores={})
    assert used(tmp_path, about, "enc-mlp-1", 16).rows
    with pytest.raises(SteerError, match="no site named"):
        used(tmp_path, About(way="sae", site="blocks.0.hook_resid_post", scores={}), "enc-mlp-1", 16)


def test_a_head_of_other_weights_has_other_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After another training, and after its heads were renumbered. In a stream it is only said."""
    other = {"checkpoint": "other", "sha256": "f" * 64, "scores": {}}
    monkeypatch.setattr(type(MODEL), "weights", Weights("small", "a" * 64))
    assert used(tmp_path, About(way="difference", site=SITE, sha256="a" * 64, scores={}), SITE).rows
    with pytest.raises(SteerError, match=r"found in other weights \(other\), whose enc-self-0.1.z has other features"):
        used(tmp_path, About(way="difference", site=SITE, **other), SITE)
    rows = used(tmp_path, About(way="difference", site="enc-mlp-1", **other), "enc-mlp-1", 16).rows
    assert all("found in other weights: " in row.warning for row in rows)


def test_on_a_hugging_face_model_and_a_file_of_prompts():
    file = RECIPES / "induction" / "induction.jsonl"
    keys = {"site": "dec-resid-0.post", "variable": "query", "checkpoint": "hf:induction"}
    found = steer.direction(task=file, episodes=6, **keys)
    assert found.rows.shape[0] == 1
    assert found.about.scores["norm"] > 0
    assert found.about.words == "counterpart (query) minus example"
    assert found.about.sha256
    with pytest.raises(SteerError, match="no split named 'tests'"):
        steer.direction(task=file, split="tests", **keys)
    with pytest.raises(SteerError):  # without a file there is nothing to look at
        steer.direction(**keys)


def test_random_rows_are_as_long_as_those_they_stand_beside():
    rows = np.random.default_rng(3).standard_normal((3, 7)) * np.array([[1.0], [10.0], [0.1]])
    drawn = random_like(Direction(rows, About(way="probe", scores={})), 5).rows
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), np.linalg.norm(rows, axis=1))
