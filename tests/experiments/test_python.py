"""Every verb from Python: the command line's defaults and messages; names, paths, dicts and objects taken alike."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import steer
from steer.base.arguments import kind_of
from steer.commands import app
from steer.results.result import Result

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
VERBS = {name: name for name in COMMANDS} | {"eval": "evaluate", "import": "import_weights"}
SPOKEN = {"json", "quiet", "help", "positions", "everything", "jobs", "recipes", "changes", "files"}  # how it is said
OTHERWISE = {  # one command is two functions, or takes several checkpoints at once
    ("attend", "head"), ("attribute", "head"), ("attribute", "prompt"), ("attribute", "episode"),
    ("discover", "checkpoint"), ("run", "workers"), ("run", "on"),
}  # fmt: skip
FEW = {"episodes.count": 6}
CLEAN = {"kind": "clean", "episodes": {"count": 6}, "measures": [{"name": "exact-match"}]}


def function(name: str) -> Any:
    found = getattr(steer, VERBS[name])
    return steer._verb(VERBS[name]) if inspect.ismodule(found) else found


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_a_function_with_the_same_defaults(name: str):
    parameters = inspect.signature(function(name)).parameters
    wanted = {one.name: one.default for one in COMMANDS[name].params if one.name not in SPOKEN and not one.required}
    for key, default in wanted.items():
        if (name, key) in OTHERWISE or key in ("out", "formats"):
            continue
        same = {str(default), str(parameters[key].default)}
        assert len(same) == 1 or same == {"None", "()"}, (name, key)


def test_every_verb_is_typed_and_says_what_it_does():
    for name in set(steer.__all__) - {"SteerError", "__version__"}:
        found = steer._verb(name)
        assert found.__doc__, name
        assert "return" in found.__annotations__, name


def test_a_room_whose_name_is_a_verb_is_both():
    import steer.plan.plan as module

    assert module.Plan
    assert "forward passes" in repr(steer.plan("chain_k"))
    for name in ("plan", "results", "discover"):
        assert inspect.ismodule(getattr(steer, name))
        assert callable(getattr(steer, name))
        assert not callable(sys.modules["steer.base"])


def test_import_is_quick_and_plans_need_no_torch():
    program = (
        "import sys, steer\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "steer.plan('chain_k'); steer.validate('swap_index'); steer.ls(); steer.schema(); steer.episodes(1)\n"
        "assert 'torch' not in sys.modules\n"
        "print(callable(steer.plan), callable(steer.results), callable(steer.discover))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"] * 3, done.stderr


def test_a_recipe_may_be_a_name_a_path_a_dict_or_an_object(tmp_path: Path):
    checkpoint = steer.load_checkpoint("tiny")
    (tmp_path / "mine.yaml").write_text(json.dumps(CLEAN))
    built = steer.build_recipe(**CLEAN)
    rows = [steer.run(given, checkpoint).rows for given in (CLEAN, tmp_path / "mine.yaml", built)]
    assert rows[0] == rows[1] == rows[2]
    assert steer.run(CLEAN, "tiny").rows == rows[0]
    assert steer.run(CLEAN | {"checkpoint": "tiny"}, changes=["seed=0"]).rows == rows[0]
    assert CLEAN["episodes"] == {"count": 6}  # what was given is left as it was
    named = steer.run("paper/accuracy", checkpoint, changes=FEW)
    assert named.provenance.examples == 6


def test_algorithm_1_takes_a_prompt_as_it_takes_an_episode():
    (episode,) = steer.episodes(1)
    assert steer.solve(str(episode)) == steer.solve(episode)
    assert steer.solve("B S A | A = red | B = blue | A S B = blue red").answer == ("red", "blue")


def test_with_out_a_result_is_written_and_known(tmp_path: Path):
    one = steer.run(CLEAN, "tiny", out=tmp_path, formats=["svg"])
    before = (one.folder / "result.json").stat().st_mtime_ns
    again = steer.run(CLEAN, "tiny", out=tmp_path)
    assert again.rows == one.rows
    assert (again.folder / "result.json").stat().st_mtime_ns == before
    assert {"figure.png", "figure.svg"} <= {path.name for path in one.folder.iterdir()}
    (listed,) = steer.results(tmp_path)
    assert (listed.listed.recipe, listed.own, listed.listed.checkpoint) == ("recipe", True, "tiny")
    assert steer.compare(one, again.folder).pairing == "paired"


def test_changes_are_against_the_shipped_recipe_that_was_run_though_others_have_its_name(tmp_path: Path):
    assert {"needed", "induction/needed", "swapping/needed"} <= {one["name"] for one in steer.ls()["recipes"]}
    steer.run("needed", "tiny", changes={"episodes.count": 4}, out=tmp_path)
    (listed,) = steer.results(tmp_path)
    assert listed.changes == ("episodes.count=4",)


FAULTS = [
    (lambda: steer.run({"kind": "clean"}), "measures: field required"),
    (lambda: steer.run({"kind": "claen", "measures": []}), "did you mean clean"),
    (lambda: steer.run(3), "a recipe is a name"),
    (lambda: steer.run(CLEAN, 3), "a checkpoint is a name"),
    (lambda: steer.run(CLEAN, "sed1"), "did you mean seed1"),
    (lambda: steer.run(CLEAN, device="cuda:77"), "no device named 'cuda:77'"),
    (lambda: steer.run(CLEAN, dtype="float16"), "float32, float64 or bfloat16"),
    (lambda: steer.run(CLEAN, changes={"episodes.cuont": 3}), "did you mean 'count'"),
    (lambda: steer.plan("chain_q"), "did you mean"),
    (lambda: steer.solve("B S Q | B = red"), "no token named 'Q'"),
    (lambda: steer.validate("swap_index", {"kind": "clean"}, "nothing"), "measures: field required"),
    (lambda: steer.attend("dec-cross-9.9"), "dec-cross-9.9"),
    (lambda: steer.attend("$output", "A | A = rde"), "rde"),
    (lambda: steer.ask(episode=99_999), "the test split has episodes"),
    (lambda: steer.ask(change="colour"), "--change"),
    (lambda: steer.component("dec-*"), "one is wanted"),
    (lambda: steer.attribute(episodes=0), "from 1 to 2,000"),
    (lambda: steer.evaluate(split="tset"), "did you mean test"),
    (lambda: steer.evaluate("tiny", device="nowhere"), "no device named"),
    (lambda: steer.reproduce("sed1"), "did you mean seed1"),
    (lambda: steer.reproduce("tiny", episodes=3), "10 at least"),
    (lambda: steer.discover("tiny", episodes=3), "from 20 to 500"),
    (lambda: steer.discover("tiny", device="cuda:77"), "no device named"),
    (lambda: steer.train("new"), "which protocol?"),
    (lambda: steer.train("new", resume=True), "cannot be resumed"),
    (lambda: steer.train("new", preset="tiny", device="cuda:77"), "no device named"),
    (lambda: steer.draw("nowhere"), "there is no file or folder"),
    (lambda: steer.draw(3), "can be drawn"),
    (lambda: steer.draw(steer.load_checkpoint("seed1").circuit, out="new", size=object()), "--size: inches"),
    (lambda: steer.load_checkpoint("seed1", "cuda:77"), "no device named 'cuda:77'"),
    (lambda: steer.load_checkpoint("seed1", dtype="float16"), "float32, float64 or bfloat16"),
    (lambda: steer.load_circuit("nowhere"), "nowhere: cannot be read"),
    (lambda: steer.run(CLEAN, "tiny", formats=["gif"]), "no format named 'gif'"),
    (lambda: steer.run("keep_one_k", changes={"seed": object()}), "changes: seed: numbers, texts"),
    (lambda: steer.ask(sites=["nowhere.k"]), "--at: no site named 'nowhere.k'"),
    (lambda: steer.attend("$output", checkpoint=steer.load_checkpoint("seed1"), task="mine.jsonl"), "load_checkpoint"),
    (lambda: steer.episodes(0), "--n: 1 at least"),
    (lambda: steer.results("nowhere"), "there is no folder"),
    (lambda: steer.compare("nowhere", "there"), "there is no file or folder"),
    (lambda: steer.episodes(split="tset"), "did you mean test"),
    (lambda: steer.episodes(task="authers"), "did you mean authors"),
    (lambda: steer.cp("swap_indx"), "did you mean swap_index"),
    (lambda: steer.migrate("nowhere"), "there is no file"),
    (lambda: steer.renumber("new", "sed1"), "did you mean seed1"),
    (lambda: steer.import_weights("nowhere.safetensors", "new"), "give --heads"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), FAULTS, ids=[says for _, says in FAULTS])
def test_faults_are_those_of_the_command_line(call: Any, says: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(steer.SteerError) as raised:
        call()
    assert says in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_texts_are_short_and_cells_have_table_and_figure(tmp_path: Path):
    checkpoint = steer.load_checkpoint("seed1")
    many = {"kind": "keep-only-one", "target": "$output.k", "sources": "enc-self-*.*", "episodes": {"count": 8},
            "measures": [{"name": "attention-accuracy", "heads": "$output"}]}  # fmt: skip
    result, pattern = steer.run(many, checkpoint), steer.attend("$output", episode=0, checkpoint=checkpoint)
    answer = steer.ask(episode=3, checkpoint=checkpoint)
    found = steer.activations(checkpoint, ["A | A = red"], "*.k")
    drawn = [result, pattern, checkpoint.circuit, answer]
    for thing in (*drawn, steer.load_recipe("chain_k"), steer.plan("chain_k"), checkpoint, found):
        assert 20 < len(repr(thing)) <= 2_000, type(thing)
        page = thing._repr_html_()
        assert "<table>" in page or "<pre>" in page, type(thing)
        assert ("<img" in page) is any(thing is one for one in drawn), type(thing)
    assert f"{pattern.head} ($output" in repr(pattern)
    assert "attention-accuracy" in repr(result)
    assert "…" in repr(found)  # 24 sites and more


def test_what_is_known_of_a_model_of_ones_own_is_a_table_too(tmp_path: Path):
    (tmp_path / "mine.jsonl").write_text('{"prompt": "ant bee cat dog elk bee", "answer": "cat", "wrong": ["dog"]}')
    checked, report = steer.check(tmp_path / "mine.jsonl", "induction"), steer.doctor("induction")
    loaded = steer.load_checkpoint("induction", task=tmp_path / "mine.jsonl")
    assert "1 prompt\n" in repr(steer.activations(loaded, "ant bee ant", "1.0.k"))
    toward = steer.direction(site="enc.tok", label="index-in-question", checkpoint="tiny", episodes=8)
    assert repr(toward).startswith("direction: 1 row of ")
    for thing, says in (
        (toward, "enc.tok"),
        (checked, "exact match"),
        (report, "every check holds"),
        (loaded, "mine.jsonl"),
    ):
        assert says in repr(thing)
        assert len(repr(thing)) <= 2_000
        assert "<table>" in thing._repr_html_()
    assert steer.attend("1.0", episode=0, checkpoint=loaded).prompt == "ant bee cat dog elk bee"


def test_progress_moves_within_one_recipe_also_while_answers_are_written():
    told: list[float] = []
    greedy = CLEAN | {"measures": [{"name": "exact-match"}, {"name": "exact-match", "decoding": "greedy"}]}
    steer.run(greedy | {"kind": "ablate-set", "nodes": ["enc-self-0.0"]}, "tiny", tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len({round(one, 3) for one in told}) >= 4
    assert sum(one < 0.5 for one in told) >= 2  # the passes before anything is written are the smaller part


def test_one_word_may_mean_different_things_to_different_verbs(tmp_path: Path):
    """`start`: a number to `episodes`, a checkpoint to `train`; `heads`: a pattern of names, or how many there are."""
    with pytest.raises(steer.SteerError, match="no checkpoint named 'sed1'; did you mean seed1"):
        steer.train(tmp_path / "run", preset="tiny", start="sed1")
    with pytest.raises(steer.SteerError, match="start: a whole number is needed, not 'sed1'"):
        steer.episodes(1, start="sed1")  # type: ignore[arg-type]
    with pytest.raises(steer.SteerError, match="a state dict does not say everything: give --norm-first"):
        steer.import_weights(tmp_path / "nowhere.safetensors", tmp_path / "new", heads=8)
    with pytest.raises(steer.SteerError, match="heads: a text is needed, not 8"):
        steer.attend_all("B | B = red", heads=8)  # type: ignore[arg-type]


ELSEWHERE = {  # told by the verb itself, or taken as it is
    "Any", "CheckpointLike", "Drawable", "Example", "RecipeLike", "Task", "Tell", "bool | str",
    "str | float | Sequence[float]",
}  # fmt: skip


def test_what_every_argument_of_every_verb_must_be_is_known():
    for verb in sorted(set(steer.__all__) - {"SteerError", "__version__"}):
        for parameter in inspect.signature(steer._verb(verb)).parameters.values():
            said = str(parameter.annotation).removesuffix(" | None")
            known = kind_of(parameter) is not None or said in ELSEWHERE
            assert known or said.startswith(("Callable[", "Literal[")), (verb, parameter)


def test_an_argument_of_the_wrong_kind_is_answered_in_words(tmp_path: Path):
    prompt = "B S A | A = red | B = blue | A S B = blue red"
    wrong = {
        "changes: a list of `key=value`, or a dict is needed, not 3": lambda: steer.run("keep_one_k", changes=3),
        "out: a path is needed, not 3": lambda: steer.run("keep_one_k", out=3),
        "out: a path is needed, not ''": lambda: steer.run("keep_one_k", out=""),
        "tell: a function is needed, not 3": lambda: steer.run("keep_one_k", tell=3),
        "force: True or False is needed, not 'yes'": lambda: steer.run("keep_one_k", force="yes"),
        "recipes: a name, a path, or a list of them is needed, not 3": lambda: steer.run_many(3),
        "prompt: a text is needed, not 3": lambda: steer.ask(3),
        "episode: a whole number is needed, not 'x'": lambda: steer.ask(episode="x"),
        "swap: a list of names is needed, not 3": lambda: steer.ask(prompt, swap=3),
        "head: a text is needed, not None": lambda: steer.attend(None, prompt),
        "preset: a text is needed, not 3": lambda: steer.train(tmp_path / "run", preset=3),
        "seed: a whole number from 0 on is needed, not -1": lambda: steer.train(tmp_path, preset="tiny", seed=-1),
        "first: a result or its folder is needed, not {}": lambda: steer.compare({}, tmp_path),
        "n: a whole number is needed, not 'x'": lambda: steer.episodes("x"),
        "start: a whole number is needed, not True": lambda: steer.episodes(1, start=True),
        "prompts: a list of texts is needed, not 3": lambda: steer.activations("tiny", 3, ["enc.tok"]),
        "sites: a list of names is needed, not [3]": lambda: steer.activations("tiny", [prompt], [3]),
        "answers: a list of names is needed, not 3": lambda: steer.activations(
            "tiny", [prompt], ["enc.tok"], answers=3
        ),
        "device: a text is needed, not []": lambda: steer.run("keep_one_k", device=[]),
        "memory: a text is needed, not 1.5": lambda: steer.run("keep_one_k", memory=1.5),
        "task: a path is needed, not 3": lambda: steer.attend("dec-cross-0.0", prompt, task=3),
        r"task: a path is needed, not 'x\x00'": lambda: steer.attend("dec-cross-0.0", prompt, task="x\0"),
        "files: a path is needed, not 3": lambda: steer.migrate(tmp_path, 3),
        "k: a number, `all`, or a list of them is needed, not 1.5": lambda: steer.align("enc.tok", "argument", 1.5),
        "seeds: a whole number is needed, not None": lambda: steer.align("enc.tok", "argument", seeds=None),
        "--seeds: from 1 to 20, not -1": lambda: steer.align("enc.tok", "argument", seeds=-1),
        "threads: a whole number is needed, not (1,)": lambda: steer.train(tmp_path, preset="tiny", threads=(1,)),
        "threshold: a number is needed, not 'x'": lambda: steer.discover("tiny", threshold="x"),
        "folder: a path is needed, not 3": lambda: Result.save(None, 3),  # type: ignore[arg-type]
    }
    for message, call in wrong.items():
        with pytest.raises(steer.SteerError) as told:
            call()
        assert told.value.faults == (message,)
    once = (word for word in ["episodes.count=3"])  # looked at, nothing of it would be left to be obeyed
    with pytest.raises(steer.SteerError, match="changes: a list of `key=value`, or a dict is needed, not <generator"):
        steer.plan("keep_one_k", changes=once)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(steer.SteerError, match="file"):
        steer.cp("keep_one_k", tmp_path / "file" / "mine.yaml")
