"""A task, a measure and a kind from outside: a package with entry points is found, checked and run like ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TASK = '''
from steer.tasks.task import PlainExample, Selection, TaskOf


class Echo(TaskOf[PlainExample, Selection]):
    """Say the first token again."""

    name = "echo"
    tokens = ("PAD", "SOS", "EOS", "a", "b")
    longest_answer = 1
    selection = Selection

    def split(self, name, seed):
        return [PlainExample((one, two, "EOS"), (one,)) for one in "ab" for two in "ab"]

    def examples(self, wanted, seed, variable=None):
        return self.split("test", seed)[: wanted.count]

    def counts(self, token):
        return token in "ab"


TASK = Echo()
'''
MEASURE = '''
from typing import Literal

from steer.anatomy.named import Heads
from steer.measures.measure import Measure, Reads, Sums, rows_of
from steer.anatomy.nodes import Site
from steer.results.rows import Row


class Entropy(Measure):
    """How many tokens a head looks at, as the entropy of its last query's attention."""

    name: Literal["toy-entropy"]
    heads: Heads
    against: Literal["answer"] = "answer"

    def reads(self, names, task, key):
        heads = names.heads((*key, "heads"), self.heads)
        sites = tuple(Site(head, "pattern") for head in heads)
        return Reads(sites, sites, rows_of(self.name, heads))

    def sums(self, setting):
        return Sum(setting, self)


class Sum(Sums):
    def __init__(self, setting, measure):
        self.heads, self.name, self.found = setting.heads(measure.heads), measure.name, {}

    def add(self, batch, condition, values):
        for head in self.heads:
            pattern = values[Site(head, "pattern")][:, -1]
            entropy = -(pattern * pattern.clamp(min=1e-300).log()).sum(-1)
            self.found.setdefault((condition, str(head)), []).extend(entropy.tolist())

    def rows(self, weights):
        rows = []
        for (condition, head), found in self.found.items():
            mean = sum(found) / len(found)
            rows.append(Row(condition, self.name, mean, mean, mean, len(found), len(found), head, unit="number"))
        return rows
'''
KIND = '''
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.named import Ports
from steer.plan.plan import Edit, Rebuilt, Zero
from steer.recipe.schema import Recipe


class Silence(Recipe):
    """These ports read a stream of zeros."""

    ablates: ClassVar[bool] = False
    kind: Literal["toy-silence"]
    ports: Annotated[Ports, Field(description="what is silenced")]

    def runs(self, lowering):
        ports = lowering.reach.sites(("ports",), lowering.names.ports(("ports",), self.ports))
        return [lowering.run("silenced", [Edit(port, Rebuilt(Zero())) for port in ports], "everything")]
'''
POINTS = {
    "steer.tasks": {"echo": "toys.task:TASK"},
    "steer.measures": {"toy-entropy": "toys.measure:Entropy"},
    "steer.kinds": {"toy-silence": "toys.kind:Silence"},
}
# An echo on a model with random weights and no biases: entropies of one head, clean and with its queries at zero.
PROGRAM = """
import json, sys
from pathlib import Path

import torch

from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.models.checkpoint import Record, load_checkpoint, save_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer

torch.manual_seed(0)
config = ModelConfig(encoder_layers=1, decoder_layers=1, heads=2, d_model=8, d_head=4, d_ff=8, vocabulary=5)
folder = Path(sys.argv[1])
model = Transformer(config)
for name, parameter in model.named_parameters():
    if name.endswith("bias"):
        torch.nn.init.zeros_(parameter)
save_checkpoint(folder, model, Record(config=config, task="echo", seed=0, protocol={}, history=[]))
recipe = build_recipe(
    kind="toy-silence", checkpoint=str(folder), ports="dec-cross-0.1.q",
    measures=[{"name": "toy-entropy", "heads": "dec-cross-0.1"}],
)
result = run_experiment(recipe, load_checkpoint(str(folder), dtype=torch.float64))
print(json.dumps([[row.condition, row.end, row.value, row.counted] for row in result.rows]))
"""


def offer(folder: Path, points: dict[str, dict[str, str]]) -> Path:
    """A folder that looks like one with an installed package."""
    package, about = folder / "toys", folder / "toys-1.0.dist-info"
    package.mkdir(parents=True)
    about.mkdir()
    for name, text in {"__init__": "", "task": TASK, "measure": MEASURE, "kind": KIND}.items():
        (package / f"{name}.py").write_text(text)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{n} = {place}\n" for n, place in some.items()) for group, some in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    return offer(tmp_path / "site", POINTS)


def test_a_task_a_measure_and_a_kind_from_outside_run(toys: Path, tmp_path: Path):
    done = python(toys, "-c", PROGRAM, str(tmp_path / "echo"))
    assert done.returncode == 0, done.stderr
    (clean, end, before, count), (silenced, last, after, _) = json.loads(done.stdout)
    assert (clean, end, silenced, last, count) == ("clean", "", "silenced", "everything", 4)
    assert after == pytest.approx(1.0986122886681098)  # a query of zeros looks at all three tokens alike: log 3
    assert before < after - 1e-6


def test_what_they_may_say_is_in_the_schema_and_faults_are_placed(toys: Path, tmp_path: Path):
    schema = json.loads(python(toys, "-m", "steer", "schema").stdout)
    assert "toy-silence" in schema["discriminator"]["mapping"]
    assert schema["$defs"]["Silence"]["properties"]["ports"]["description"] == "what is silenced"
    assert "Entropy" in schema["$defs"]
    file = tmp_path / "bad.yaml"
    file.write_text("kind: toy-silence\nports: dec-cros-1.1.q\nport: 1\nmeasures: [{name: toy-entropy, heads: none}]\n")
    done = python(toys, "-m", "steer", "validate", str(file))
    told = "".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, told
    for place in (":2:8:", ":3:1:", ":4:39:"):  # a port, a key, a head
        assert f"bad.yaml{place}" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ({"steer.kinds": {"other": "toys.kind:Silence"}}, "Silence must say `kind: Literal['other']`"),
        ({"steer.kinds": {"clean": "toys.kind:Silence"}}, "'clean' is offered twice"),
        ({"steer.measures": {"toy-entropy": "toys.measure:Sum"}}, "toys.measure:Sum is not a Measure"),
        ({"steer.measures": {"toy-entropy": "toys.measure:Gone"}}, "cannot be loaded from toys.measure:Gone"),
    ],
)
def test_what_is_offered_wrongly_is_said_in_one_message(points: dict[str, dict[str, str]], text: str, tmp_path: Path):
    done = python(offer(tmp_path / "site", points), "-m", "steer", "schema")
    assert done.returncode == 2, done.stdout + done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    assert text in told
    assert "Traceback" not in told
