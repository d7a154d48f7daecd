"""Heads in other numbers: the same function, every name follows, and all of it can be undone."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from conftest import ROLES
from small import TWO, random_weights
from tokens import TOKENS

from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site, parse_node
from steer.base.errors import CheckpointError, SteerError
from steer.base.shipped import CHECKPOINTS, RECORD
from steer.engine.engine import Engine
from steer.experiments.renumber import numbers_as_trained, numbers_like, renumber
from steer.models.checkpoint import WEIGHTS, Checkpoint, Record, load_checkpoint, read_record
from steer.models.families import names_of
from steer.models.plain.config import ModelConfig
from steer.models.plain.heads import reorder_heads
from steer.models.plain.layout import plain_layout
from steer.models.plain.model import PlainModel
from steer.models.plain.transformer import Transformer
from steer.models.vocabulary import Vocabulary
from steer.paper.numbers import PAPER_HEADS
from steer.results.circuit import CIRCUIT, read_circuit

SIZES = [
    ModelConfig(heads=8, d_model=16, d_head=3, d_ff=12),
    ModelConfig(encoder_layers=3, decoder_layers=3, heads=5, d_model=16, d_head=4, d_ff=12),
    ModelConfig(encoder_layers=1, decoder_layers=3, heads=2, d_model=8, d_head=6, d_ff=4),
]


def blocks(config: ModelConfig) -> list[Node]:
    return list(dict.fromkeys(replace(head, head=None) for head in plain_layout(config).heads))


def shuffled(config: ModelConfig, seed: int = 0) -> dict[Node, tuple[int, ...]]:
    """An order for each block, most of which move every head."""
    generator = torch.Generator().manual_seed(seed)
    return {block: tuple(torch.randperm(config.heads, generator=generator).tolist()) for block in blocks(config)}


@pytest.mark.parametrize("config", SIZES, ids=["2+2", "3+3", "1+3"])
def test_logits_stay_and_heads_move(config: ModelConfig):
    """With random biases everywhere. Every port of a head is found at its new number, of the old one's value."""
    model, order = random_weights(Transformer(config).double()), shuffled(config, 1)
    engines = [Engine(PlainModel(m, Vocabulary(TOKENS))) for m in (model, reorder_heads(model, order))]
    sites = [site for site in engines[0].layout.sites if site.port != "scores"]
    (before, old), (after, new) = (
        (engine.clean(batch, sites), batch) for engine in engines for batch in engine.batches(TWO)
    )
    moved = 0
    torch.testing.assert_close(after[Site(Node("logits"))], before[Site(Node("logits"))], rtol=0, atol=1e-12)
    for site in sites:
        node = site.node
        was = replace(node, head=order[replace(node, head=None)][node.head or 0]) if node.is_head else node
        torch.testing.assert_close(after[site], before[Site(was, site.port)], rtol=0, atol=1e-12)
        moved += was != node
    assert moved > len(sites) / 3
    assert torch.equal(old.tokens["prompt"], new.tokens["prompt"])


def named(config: ModelConfig, **roles: str) -> Names:
    found = {role.replace("_", "-"): tuple(map(parse_node, heads.split())) for role, heads in roles.items()}
    return Names(plain_layout(config), found, tuple(PAPER_HEADS))


def test_leads_get_the_papers_numbers_and_the_rest_stay_in_order():
    names = named(
        ModelConfig(), output="dec-cross-1.2 dec-cross-1.5", primitive_pairing="enc-self-1.7",
        function_retrieval="enc-self-1.1", question_broadcast="enc-self-0.5",
    )  # fmt: skip
    numbering = numbers_like(names, PAPER_HEADS)
    assert {str(block): heads for block, heads in numbering.order.items()} == {
        "dec-cross-1": (0, 1, 3, 4, 5, 2, 6, 7),
        "enc-self-1": (0, 7, 1, 2, 3, 4, 5, 6),
    }
    assert numbering.left == ("rhs-scanner: no head plays it here", "primitive-retrieval: no head plays it here")
    assert {str(now): str(then) for now, then in numbering.given.values()} == {
        "dec-cross-1.2": "dec-cross-1.5", "enc-self-1.7": "enc-self-1.1", "enc-self-1.1": "enc-self-1.2",
        "enc-self-0.5": "enc-self-0.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("config", "roles", "says"),
    [
        (ModelConfig(decoder_layers=3), {"output": "dec-cross-2.1"}, "dec-cross-1.5 is in another block"),
        (ModelConfig(heads=4), {"output": "dec-cross-1.1"}, "there is no dec-cross-1.5 in a block of 4 heads"),
        (
            ModelConfig(),
            {"primitive_pairing": "enc-self-1.4", "function_retrieval": "enc-self-1.4"},
            "function-retrieval: enc-self-1.4 keeps its place: it is already enc-self-1.1",
        ),
    ],
)
def test_what_does_not_fit_is_said_and_stays(config: ModelConfig, roles: dict[str, str], says: str):
    numbering = numbers_like(named(config, **roles), PAPER_HEADS)
    assert says in "\n".join(numbering.left)
    if "another role" not in "\n".join(numbering.left):
        assert not numbering.order


def test_heads_of_one_role_have_the_numbers_of_another_checkpoints():
    mine = named(ModelConfig(), output="dec-cross-1.1 dec-cross-1.7 dec-cross-1.0", rhs_scanner="dec-cross-0.2")
    theirs = {"output": tuple(map(parse_node, ("dec-cross-1.4", "dec-cross-1.3")))}
    numbering = numbers_like(mine, theirs)
    assert {str(block): heads for block, heads in numbering.order.items()} == {"dec-cross-1": (0, 2, 3, 7, 1, 4, 5, 6)}


def test_two_renumberings_compose_and_are_undone():
    config = SIZES[1]
    model = random_weights(Transformer(config).double())
    record = Record(config=config, seed=0, protocol={}, history=[], weights_sha256="0" * 64)
    first = numbers_like(named(config, output="dec-cross-1.1", rhs_scanner="dec-cross-0.4"), {
        "output": (parse_node("dec-cross-1.3"),), "rhs-scanner": (parse_node("dec-cross-0.0"),),
    })  # fmt: skip
    once = renumber(Checkpoint(model, record, "one"), first, "some", "two")
    second = replace(first, order=shuffled(config, 5))
    twice = renumber(Checkpoint(once.model, once.record, "two"), second, "others", "three")
    assert twice.record.renumbered is not None
    assert twice.record.renumbered.trained_sha256 == "0" * 64
    assert twice.record.renumbered.like == "others"
    both = reorder_heads(model, {parse_node(b): heads for b, heads in twice.record.renumbered.heads.items()})
    for name, tensor in twice.model.state_dict().items():
        assert torch.equal(tensor, both.state_dict()[name])
    back = numbers_as_trained(twice.record)
    restored = reorder_heads(twice.model, back.order)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, restored.state_dict()[name])
    with pytest.raises(CheckpointError, match="do not give the weights"):  # the record's hash was made up
        renumber(Checkpoint(twice.model, twice.record, "three"), back, "trained", "four")


@pytest.fixture
def trained(steer, tmp_path: Path) -> Path:
    """A shipped checkpoint with the numbers of its training: shipped ones carry the paper's."""
    done = steer("renumber", "-c", "seed1", "--like", "trained", "--out", tmp_path / "trained")
    assert done.exit_code == 0, done.output
    return tmp_path / "trained"


@pytest.fixture
def numbered(trained: Path, steer, tmp_path: Path) -> Path:
    done = steer("renumber", "-c", trained, "--out", tmp_path / "new")
    assert done.exit_code == 0, done.output
    assert "dec-cross-1.4 -> dec-cross-1.5" in done.stdout
    assert "primitive-retrieval: no head plays it here" in done.stdout
    return tmp_path / "new"


def test_every_name_in_the_circuit_follows(numbered: Path, trained: Path):
    """Read as text: each head's name replaced wherever it stands."""
    heads = {
        f"{block}.{trained}": f"{block}.{number}"
        for block, order in json.loads((numbered / RECORD).read_text())["renumbered"]["heads"].items()
        for number, trained in enumerate(order)
    }
    text = (trained / CIRCUIT).read_text()
    followed = re.sub(r"(enc|dec)-(self|cross)-\d\.\d", lambda name: heads.get(name[0], name[0]), text)
    assert followed != text
    wanted, found = yaml.safe_load(followed), yaml.safe_load((numbered / CIRCUIT).read_text())
    record = read_record(numbered)
    assert found.pop("checkpoint") == {
        "name": "new", "sha256": record.weights_sha256, "numbering": "heads renumbered like the paper's",
        "searched": wanted.pop("checkpoint")["sha256"],
    }  # fmt: skip
    in_order = [str(node) for node in names_of(str(numbered)).layout.nodes]
    wanted["members"].sort(key=lambda member: in_order.index(member["node"]))
    assert {"task": "compositional"} | wanted == found
    assert (wanted["evidence"]["traced_from"][0], wanted["roles"]["output"][0]) == ("dec-cross-1.5",) * 2


def test_the_circuit_is_known_and_numbers_are_told(numbered: Path, trained: Path, steer, tmp_path: Path):
    assert read_circuit(numbered, read_record(numbered).weights_sha256) is not None
    found = steer("discover", "-c", numbered, "--out", tmp_path / "found")
    assert "already known" in found.stdout
    told = "heads renumbered like the paper's"
    assert told in found.stdout
    page = steer("attribute", "-c", numbered, "--head", "dec-cross-1.5", "--episodes", 20, "--out", tmp_path / "page")
    assert told in page.stdout
    was = steer("attribute", "-c", trained, "--head", "dec-cross-1.4", "--episodes", 20, "--out", tmp_path / "was")
    assert told not in was.stdout
    logits = [json.loads((tmp_path / one / "page.json").read_text())["rows"][0]["value"] for one in ("page", "was")]
    assert logits[0] == pytest.approx(logits[1], abs=1e-4)
    for command in (["attribute", "--episodes", 20], ["attend", "--head", "$output"]):
        done = steer(*command, "-c", numbered, "--out", tmp_path / command[0])
        assert done.exit_code == 0, done.output
        assert told in done.stdout
        assert "dec-cross-1.5" in done.stdout


def test_undone_it_is_the_same_checkpoint(numbered: Path, trained: Path, steer, tmp_path: Path):
    assert (numbered / WEIGHTS).read_bytes() != (trained / WEIGHTS).read_bytes()
    done = steer("renumber", "-c", numbered, "--like", "trained", "--out", tmp_path / "back")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "back" / WEIGHTS).read_bytes() == (trained / WEIGHTS).read_bytes()
    new, old = (yaml.safe_load((folder / CIRCUIT).read_text()) for folder in (tmp_path / "back", trained))
    assert new.pop("checkpoint") | {"name": "trained"} == old.pop("checkpoint")
    assert new == old
    assert read_record(tmp_path / "back") == read_record(trained)


def test_shipped_checkpoints_carry_the_papers_numbers():
    """A reader of the paper types dec-cross-1.5 first: it is the Output Head."""
    for name in ("strict2", "seed1", "seed2"):
        roles = {role: str(heads[0]) for role, heads in names_of(name).roles.items() if heads}
        wanted = {
            "output": "dec-cross-1.5", "rhs-scanner": "dec-cross-0.6", "primitive-pairing": "enc-self-1.1",
            "question-broadcast": "enc-self-0.5",
        }  # fmt: skip
        assert wanted.items() <= roles.items()
        assert read_record(CHECKPOINTS / name).numbering == "heads renumbered like the paper's"


def test_logits_of_the_written_checkpoint_are_the_same(numbered: Path, trained: Path):
    models = [load_checkpoint(str(name), dtype=torch.float64).transformer for name in (numbered, trained)]
    prompt, output = torch.randint(3, 20, (6, 30)), torch.randint(3, 20, (6, 5))
    torch.testing.assert_close(models[0](prompt, output), models[1](prompt, output), rtol=0, atol=1e-12)


def test_like_another_checkpoint(trained: Path, steer, tmp_path: Path):
    done = steer("renumber", "-c", "seed2", "--like", trained, "--out", tmp_path / "new", "--json")
    assert done.exit_code == 0, done.output
    mine, theirs = names_of(str(tmp_path / "new")).roles, names_of(str(trained)).roles
    for role in ("output", "rhs-scanner", "primitive-pairing", "question-broadcast"):
        assert mine[role][0] == theirs[role][0]
    assert json.loads(done.stdout)["heads"]["dec-cross-1.5"] == "dec-cross-1.4"
    assert read_record(tmp_path / "new").numbering == "heads renumbered like those of trained"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-c", "tiny"], "no roles of this checkpoint are known"),
        (["-c", "seed1", "--like", "sed2"], "did you mean seed2"),
        (["-c", "sed1"], "did you mean seed1"),
    ],
)
def test_bad_input_is_answered(steer, tmp_path: Path, arguments: list[str], says: str):
    done = steer("renumber", *arguments, "--out", tmp_path / "new")
    assert done.exit_code == 2
    assert says in done.stderr
    assert not (tmp_path / "new").exists()


def test_nothing_is_written_over_a_checkpoint(steer, tmp_path: Path):
    shutil.copytree(CHECKPOINTS / "tiny", tmp_path / "mine")
    done = steer("renumber", "-c", "seed1", "--out", tmp_path / "mine")
    assert done.exit_code == 2
    assert "is not empty" in done.stderr


def test_a_record_with_impossible_numbers_is_refused(numbered: Path):
    content = json.loads((numbered / RECORD).read_text())
    for heads, says in (
        ({"enc-self-1": [0] * 8}, "not each of 8 heads once"),
        ({"enc-self-7": list(range(8))}, "no block"),
    ):
        content["renumbered"]["heads"] = heads
        (numbered / RECORD).write_text(json.dumps(content))
        with pytest.raises(SteerError, match=says):
            read_record(numbered)


def test_a_hand_written_circuit_follows_too(cast: Path, steer, tmp_path: Path):
    done = steer("renumber", "-c", cast, "--out", tmp_path / "new")
    assert done.exit_code == 0, done.output
    leads = {role: heads[0] for role, heads in names_of(str(tmp_path / "new")).roles.items()}
    assert leads == {role: heads[0] for role, heads in PAPER_HEADS.items()}
    assert ROLES["output"][0] != str(leads["output"])
