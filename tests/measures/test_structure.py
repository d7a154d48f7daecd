"""Measures of structure on models and activations whose right answer is known by construction."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import relative_logit
from sklearn.linear_model import LinearRegression
from tokens import collate

from steer.drawing.figures.draw import draw_result, drawings
from steer.drawing.figures.scatter import _numbers as scatter_numbers
from steer.engine.engine import Engine
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.measures.representation import Represented
from steer.measures.setting import Setting
from steer.models.checkpoint import Checkpoint, Record, load_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.models.protocol import Reading
from steer.results.details import Histogram, Scatter
from steer.results.files import read_result, to_json, write_result
from steer.tasks.compositional.labels import labelled_tokens
from steer.tasks.compositional.splits import make_splits

EPISODES = [e for e in make_splits(0).test if len(e.question.arguments) == 2][:40]
SIZE = 32


@torch.no_grad()
def copying_model() -> Transformer:
    """One cross-attention head whose OV circuit is the identity on one-hot tokens; nothing else writes anything."""
    config = ModelConfig(
        encoder_layers=1, decoder_layers=1, heads=1, d_model=SIZE, d_head=SIZE, d_ff=4, position_scale=0.0
    )
    model = Transformer(config).double()
    for parameter in model.parameters():
        parameter.zero_()
    for norm in (module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)):
        norm.weight.fill_(1.0)
    onehot = torch.nn.functional.one_hot(torch.arange(config.vocabulary), SIZE).double()
    model.enc_embed.table.weight.copy_(onehot)
    model.unembed.weight.copy_(onehot)
    block = model.dec[0]["cross_attn"]
    block.W_V.weight.copy_(torch.eye(SIZE))
    block.W_O.weight.copy_(torch.eye(SIZE))
    return model.requires_grad_(False)


@pytest.fixture
def copier() -> Checkpoint:
    model = copying_model()
    return Checkpoint(model, Record(config=model.config, seed=0, protocol={}, history=[]), "copier")


def run(checkpoint: Checkpoint, **keys):
    return run_experiment(build_recipe(**({"kind": "clean", "episodes": {"count": 40, "arity": 2}} | keys)), checkpoint)


def test_a_head_that_copies_by_design_aligns_exactly(copier: Checkpoint):
    """LayerNorm takes a one-hot vector to (1 - 1/32) / s at its token and (-1/32) / s elsewhere."""
    result = run(copier, measures=[{"name": "ov-alignment", "heads": "dec-cross-0.0"}])
    spread = np.sqrt(1 / SIZE - 1 / SIZE**2 + 1e-5)
    rows = {(row.measure, row.against): row for row in result.rows}
    assert rows["ov-alignment", "own row"].value == pytest.approx((1 - 1 / SIZE) / spread)
    assert rows["ov-alignment", "other rows"].value == pytest.approx(-1 / SIZE / spread)
    assert rows["ov-above-null", "other rows"].value == 1.0
    assert rows["ov-alignment", "own row"].counted == result.of_kind(Histogram)[0].tokens


def test_the_only_writer_has_the_whole_logit(copier: Checkpoint):
    result = run(copier, episodes={"count": 2_000}, measures=[{"name": "logit-attribution"}])
    shares = {row.of: row.value for row in result.rows if row.position is None}
    assert shares["dec-cross-0.0"] > 0.1
    assert {name for name, value in shares.items() if value != 0} == {"dec-cross-0.0"}
    batch = collate(make_splits(0).test)
    prompt, output, target = map(torch.from_numpy, (batch.prompt, batch.output, batch.target))
    whole = relative_logit(copier.transformer(prompt, output), target)
    colour = torch.from_numpy(np.isin(batch.target, [i for i in range(20) if _is_colour(i)]))
    assert shares["dec-cross-0.0"] == pytest.approx(float(whole[colour].mean()))


def _is_colour(number: int) -> bool:
    from tokens import ID

    from steer.tasks.compositional.vocabulary import COLOURS

    return number in {ID[colour] for colour in COLOURS}


# R² of activations that are made by hand and fed to the measure in the place of a model's


def represented(copier: Checkpoint, make, tokens: str = "colours") -> Represented:
    label, site = ("relative-index", "dec-cross-0.0.q") if tokens == "steps" else ("index-in-question", "enc.memory")
    measure = {"name": "r-squared", "site": site, "label": label, "tokens": tokens}
    recipe = build_recipe(kind="clean", measures=[measure]).recipe
    engine = Engine(copier.model)
    found = Represented(Setting(copier, EPISODES, recipe.measures), recipe.measures[0])
    for batch in engine.batches(EPISODES, 15):
        shape = (*batch.tokens["answer" if tokens == "steps" else "prompt"].shape, SIZE)
        values = torch.full(shape, 1e6, dtype=torch.float64)  # what is not labelled must not be read
        for n, row in enumerate(batch.rows):
            for place, kind in labelled_tokens(EPISODES[row], label, tokens):
                values[n, place] = torch.from_numpy(make(row, kind))
        held = values[:, :, None] if tokens == "steps" else values
        hook = "dec.0.cross_attn.q" if tokens == "steps" else "memory"
        found.add(batch, "clean", Reading(engine.model, {hook: held}))
    return found


DIRECTIONS = np.random.default_rng(0).normal(size=(4, SIZE))


@pytest.mark.parametrize("tokens", ["symbols", "colours", "steps"])
def test_an_exact_function_of_the_label_is_explained_whole(copier: Checkpoint, tokens: str):
    found = represented(copier, lambda row, kind: DIRECTIONS[kind], tokens)
    (row,) = found.rows(np.ones((1, len(EPISODES))))
    assert (row.value, row.low, row.high) == pytest.approx((1, 1, 1))
    assert row.chance < 0.3
    (panel,) = found.details()
    assert len(set(zip(panel.x, panel.labels, strict=True))) == len(panel.centres) == 2
    assert panel.variance == pytest.approx([1, 0])


def test_r2_of_collected_activations_is_that_of_a_regression(copier: Checkpoint):
    rng = np.random.default_rng(2)
    found = represented(copier, lambda row, kind: DIRECTIONS[kind] + 2 * rng.normal(size=SIZE))
    values, labels, _ = found.points("clean")
    onehot = (labels[:, None] == np.unique(labels)).astype(float)
    fitted = LinearRegression().fit(onehot, values).predict(onehot)
    wanted = 1 - ((values - fitted) ** 2).sum() / ((values - values.mean(0)) ** 2).sum()
    (row,) = found.rows(np.ones((1, len(EPISODES))))
    assert row.value == pytest.approx(wanted)
    assert 0.1 < wanted < 0.9
    assert row.counted == len(labels) == 2 * len(EPISODES)


# Whole recipes


def test_an_ablated_site_without_variance_gives_zero_and_a_picture(copier: Checkpoint, tmp_path: Path):
    site = {"name": "r-squared", "site": "dec-cross-0.0.z", "label": "relative-index", "tokens": "steps"}
    compared = {"kind": "compare", "conditions": [{"name": "off", "ablate": "dec-cross-0.0"}]}
    result = run(copier, **compared, ablation={"value": "zero"}, measures=[site], figure="scatter")
    clean, off = result.rows
    assert clean.value > 0
    assert (off.value, off.low, off.high, off.chance) == (0, 0, 0, 0)
    assert draw_result(result, tmp_path)[0].stat().st_size > 1_000


def test_two_labels_of_one_site_have_rows_and_panels_of_their_own(copier: Checkpoint):
    site = {"name": "r-squared", "site": "enc.memory", "label": "index-in-question"}
    result = run(copier, measures=[site | {"tokens": "symbols"}, site | {"tokens": "colours"}], figure="scatter")
    values = {row.tokens: row.value for row in result.rows}
    assert len(set(values.values())) == 2
    for panel in result.of_kind(Scatter):
        assert f"R² {values[panel.tokens]:.2f}" in scatter_numbers(panel, result)


def test_attribution_keeps_the_clean_scale():
    """What a component before the ablated one writes is the same, and so is its share."""
    compared = {"kind": "compare", "conditions": [{"name": "off", "ablate": "dec-cross-1.0"}]}
    result = run(load_checkpoint("seed1"), **compared, measures=[{"name": "logit-attribution"}])
    shares = {(r.condition, r.of): r.value for r in result.rows if r.position is None}
    before = [f"dec-{block}.{head}" for block in ("self-0", "cross-0", "self-1") for head in range(8)]
    for component in ("dec.tok", *before, "dec-mlp-0", "dec-cross-1.1"):
        assert shares["off", component] == shares["clean", component] != 0
    assert shares["off", "dec-cross-1.0"] != shares["clean", "dec-cross-1.0"]


def test_numbers_that_share_no_axis_have_pictures_of_their_own(copier: Checkpoint, tmp_path: Path):
    measures = [
        {"name": "exact-match"},
        {"name": "logit-attribution"},
        {"name": "ov-alignment", "heads": "dec-cross-0.0"},
    ]
    compared = {"kind": "compare", "conditions": [{"name": "without $a_b_c$", "ablate": ["enc.tok", "dec-cross-0.0"]}]}
    result = run(copier, **compared, measures=measures)
    assert [p.name for p in draw_result(result, tmp_path)] == [
        "figure.png", "figure-components.png", "figure-ov-alignment.png"
    ]  # fmt: skip
    parts = {name: part for name, _, part in drawings("rates", result)}
    assert set(parts) == {"rates", "components", "ov-alignment"}
    assert {row.measure for row in parts["rates"].rows} == {"exact-match", "ov-above-null"}


def test_a_pattern_is_that_of_the_bare_model(steer, tmp_path: Path):
    asked = [
        "run",
        "paper/fig02b_output_pattern",
        "checkpoint=seed1",
        "episodes.count=12",
        "measures.0.heads=[dec-cross-0.3, enc-self-1.1]",
    ]
    told = json.loads(steer(*asked, "--out", tmp_path, "--json").stdout)
    assert told["rows"] == []
    from oracle import hooked_forward

    from steer.models.checkpoint import load_checkpoint
    from steer.tasks.compositional.selection import Episodes, select

    model = load_checkpoint("seed1").transformer
    episode = select(Episodes(count=12, arity=2), 0)[0]
    batch = collate([episode])
    with torch.no_grad():
        seen = hooked_forward(model, torch.from_numpy(batch.prompt), torch.from_numpy(batch.output), {})
    cross, self_ = told["details"]
    assert cross["keys"] == self_["keys"] == self_["queries"] == list(episode.prompt)
    assert cross["queries"] == ["SOS", *episode.answer]
    np.testing.assert_allclose(cross["weights"], seen["dec.0.cross_attn.pattern"][0, 3], atol=1e-4)
    np.testing.assert_allclose(self_["weights"], seen["enc.1.self_attn.pattern"][0, 1], atol=1e-4)


def test_details_are_read_back_and_drawn_without_a_model(steer, cast: Path, tmp_path: Path):
    asked = ["run", "paper/fig06_index_in_question", "episodes.count=12", f"checkpoint={cast}"]
    told = json.loads(steer(*asked, "--out", tmp_path, "--json").stdout)
    folder = Path(told["folder"])
    assert to_json(read_result(folder))["details"] == told["details"]
    pictures = {path.name: path.read_bytes() for path in folder.glob("figure*")}
    for name in pictures:
        (folder / name).unlink()
    assert steer("draw", folder).exit_code == 0
    assert {path.name: path.read_bytes() for path in folder.glob("figure*")} == pictures
    done = steer("draw", folder, "--figure", "histogram")
    assert done.exit_code == 2
    assert "nothing to draw as histogram" in done.stderr
    again = read_result(folder)
    write_result(again, tmp_path / "copy")
    assert read_result(tmp_path / "copy").details == again.details


COMPARE = """\
kind: compare
conditions:
  - {name: one, ablate: enc-self-0.1}
measures:
  - {name: r-squared, site: enc-self-0.1.z, label: index-in-question, tokens: symbols}
"""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            ("enc-self-0.1}", "enc-self-0.11}"),
            ":3:25: no head or node named 'enc-self-0.11'; did you mean enc-self-0.1",
        ),
        (("ablate: enc-self-0.1", "keep: enc-self-0.1"), "give either ablate, or keep with among"),
        (("{name: one, ", "{name: clean, "), "clean, nothing ablated"),
        (("ablate: enc-self-0.1", "among: enc-self-0.*, keep: enc-self-1.1"), "enc-self-1.1 is not among those"),
        (("0.1.z", "0.1.y"), ":5:29: no site named 'enc-self-0.1.y'; did you mean"),
        (("0.1.z", "0.1.pattern"), "between tokens"),
        (("tokens: symbols", "tokens: steps"), "relative-index is of steps"),
        (("site: enc-self-0.1.z", "site: dec-cross-0.1.q"), "at the answer's tokens, not at symbols"),
        (("r-squared", "r-square"), "did you mean r-squared"),
        (("tokens: symbols", "tokens: symbol"), "symbols"),
    ],
)
def test_bad_comparisons_are_answered(steer, tmp_path: Path, change: tuple[str, str], says: str):
    (tmp_path / "mine.yaml").write_text(COMPARE.replace(*change))
    done = steer("validate", tmp_path / "mine.yaml")
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert "mine.yaml:" in done.stderr


def test_a_pattern_of_an_episode_that_is_not_there(steer, cast: Path, tmp_path: Path):
    changes = ["episodes.count=9", "measures.0.episode=9", f"checkpoint={cast}"]
    done = steer("run", "paper/fig02b_output_pattern", *changes, "--out", tmp_path)
    assert done.exit_code == 2
    assert "asks for episode 9 of 9" in done.stderr
