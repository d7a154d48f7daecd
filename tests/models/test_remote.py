"""Models that a server runs, through nnsight's own server of this process: the same rows as here, and what is refused.

What a real server adds (its queue, its versions, its dtype) is not shown here; docs/scale.md says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hugging import random_model
from hugging_files import save_model
from parted import assert_same_rows

from steer.base.errors import SteerError
from steer.experiments.api import build_recipe, run
from steer.experiments.remote import remote_engine

pytestmark = pytest.mark.filterwarnings("ignore")
MEASURES = [{"name": "answer-probability"}, {"name": "exact-match", "decoding": "greedy"}]
SITES = ["dec.tok", "dec-resid-1.pre", "dec-self-*.z", "dec-mlp-*"]
RECIPES: dict[str, dict[str, Any]] = {
    "clean": {"kind": "clean"},
    "mean": {"kind": "ablate-set", "nodes": ["dec-self-1.*", "dec-mlp-0"]},
    "resample": {
        "kind": "ablate-set", "nodes": ["dec-self-1.2", "dec-self-0.1"], "places": [2],
        "ablation": {"value": "resample"},
    },
    "patch": {"kind": "activation-patch", "sites": SITES, "variable": "other", "measures": MEASURES[:1]},
}  # fmt: skip


@pytest.fixture(scope="module", params=["gpt2", "llama", "gpt_neox"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    save_model(folder / "model", request.param, random_model(request.param, dtype=torch.float32))
    lines = []
    for n in range(7):
        more = " w7" * (n % 3)
        other = {"prompt": f"w{5 + n} w{9 + n} w{21 + n % 5}{more}", "answer": f"w{31 + n}"}
        prompt = f"w{4 + n} w{9 + n} w{20 + n}{more}"
        lines.append({"prompt": prompt, "answer": f"w{30 + n}", "counterparts": {"other": other}})
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def recipe(home: Path, **keys: Any) -> dict[str, Any]:
    return {"checkpoint": f"hf:{home}/model", "task": f"{home}/lines.jsonl", "measures": MEASURES} | keys


@pytest.mark.parametrize("name", RECIPES)
def test_a_server_gives_the_rows_of_this_machine(home: Path, name: str):
    asked = recipe(home, **RECIPES[name])
    here, there = run(asked), run(asked, remote="local")
    assert_same_rows(here.rows, there.rows, 1e-5)
    assert len({row.value for row in here.rows}) > (name != "clean")  # the edits do something
    assert here.provenance.hash != there.provenance.hash  # whose weights these are is the server's word
    assert {"nnsight", "transformers"} <= there.provenance.versions.keys()


def test_the_weights_have_no_values_here(home: Path):
    subject, engine = remote_engine(build_recipe(**recipe(home, kind="clean")), "local")
    assert {weight.device.type for weight in subject.model.module.parameters()} == {"meta"}
    with pytest.raises(SteerError, match="weights, which are on the server"):
        subject.model.written(subject.names.head("dec-self-0.1"), torch.zeros(1))
    assert engine.backend.reaches(engine.steps.hook(subject.names.sites("dec-self-0.1.z")[0]))
    assert not engine.backend.reaches(engine.steps.hook(subject.names.sites("dec-self-0.1.pattern")[0]))


def test_a_plan_that_needs_other_sites_is_refused_with_the_sites(home: Path):
    asked = recipe(home, kind="keep-only-one", target="dec-self-2.1.q", sources="dec-self-0.*")
    with pytest.raises(SteerError) as caught:
        run(asked, remote="local")
    assert "--remote: no module of the model takes in or gives out" in str(caught.value)
    assert "dec-self-2.1.q" in str(caught.value)
    assert "rebuilt from weights" in str(caught.value)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_a_model_with_an_encoder_is_refused_with_the_reason(family: str, tmp_path: Path):
    """nnsight itself would know no such model of one family, and take the other's decoder alone."""
    save_model(tmp_path / "model", family, random_model(family, dtype=torch.float32))
    (tmp_path / "lines.jsonl").write_text(json.dumps({"prompt": "w4 w9", "answer": "w30"}))
    with pytest.raises(
        SteerError, match="it has an encoder, and nnsight sends models of the task text-generation only"
    ):
        run(recipe(tmp_path, kind="clean"), remote="local")


def test_only_models_of_the_hub_are_sent(home: Path):
    with pytest.raises(SteerError, match="a server knows models by their name on the Hub"):
        run(recipe(home, kind="clean"), remote=True)
    with pytest.raises(SteerError, match="--remote is for models of the Hugging Face Hub"):
        run("keep_one_k", "seed1", remote=True)
