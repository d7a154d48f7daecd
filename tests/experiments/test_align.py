"""Subspaces that are learnt: the planted one is found, the whole of a site is the site, controls stand beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from by_hand import Condition, Trial, borrow, nothing
from by_hand_net import Edits, Values, forward
from handmade import chain, episodes
from small import ask, net_of, of_arity, same, talker, trials
from tokens import ID
from torch import Tensor

import steer
from steer.anatomy.nodes import parse_site
from steer.base.errors import KeyedError, SteerError
from steer.engine.engine import Engine
from steer.engine.session import Inputs
from steer.experiments.api import build_recipe
from steer.experiments.experiment import Experiment
from steer.experiments.subspaces import Fitting, Pairs, angles, drawn, fit, shuffled, training_pairs
from steer.models.checkpoint import Checkpoint, load_checkpoint
from steer.models.untrained import with_random_weights
from steer.recipe.schema import Learning
from steer.results.directions import read_direction
from steer.results.rows import CONTROL, Row, find
from steer.tasks.compositional.counterparts import counterpart
from steer.tasks.task import PlainExample

MODEL = talker()
PAIRS = [(e, other) for e in of_arity(2, 200) if (other := counterpart(e, "index-in-question"))]
EPISODES, OTHERS = [e for e, _ in PAIRS[:4]], [other for _, other in PAIRS[:4]]
TRAIN = [e for e, _ in PAIRS[4:24]]
SITE = "enc-self-0.1.z"
COMMON = {
    "kind": "align", "variable": "index-in-question", "episodes": {"arity": 2}, "k": [2, "all"], "epochs": 2,
    "train": {"split": "train", "arity": 2}, "sets": [{"name": "set", "sites": SITE}],
    "measures": [{"name": "exact-match", "against": "answer"}],
}  # fmt: skip
ALONE = {"controls": [], "no_controls": "controls are tested elsewhere"}
SITES = [SITE, "dec-cross-1.0.k", "logits"]


def turned_chain(seed: int) -> tuple[Checkpoint, np.ndarray]:
    """The chain with its broadcaster's features turned at random, and the one direction that it writes along.

    The output head looks less sharply than in the plain chain: where the answer is certain, nothing is left to learn.
    """
    made = chain()
    block = made.transformer.enc[0]["self_attn"]
    drawn = np.random.default_rng(seed).standard_normal((32, 32))
    turn = torch.from_numpy(np.linalg.qr(drawn)[0]).float()
    with torch.no_grad():
        block.W_V.weight[:32] = turn @ block.W_V.weight[:32]
        block.W_O.weight[:, :32] = block.W_O.weight[:, :32] @ turn.T
        made.transformer.dec[0]["cross_attn"].W_Q.bias[0] = 2.0
    return made, turn[:, :1].T.double().numpy()


def other_questions(count: int) -> Pairs:
    """Episodes whose counterpart asks for another symbol, with that one's colour as the answer."""
    examples, others = [], []
    for prompt in (episode.prompt for episode in episodes(count, (2, 3))):
        meanings = {prompt[n - 1]: prompt[n + 1] for n, token in enumerate(prompt) if token == "="}
        symbol = next(symbol for symbol in meanings if symbol != prompt[0])
        examples.append(PlainExample(prompt, (meanings[symbol],)))
        others.append(PlainExample((symbol, *prompt[1:]), (meanings[symbol],)))
    return Pairs(examples, others)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_planted_dimension_is_found(seed: int):
    made, planted = turned_chain(seed)
    site = parse_site("enc-self-0.0.z")
    fitting = Fitting(epochs=12, rate=0.05, batch=20, seed=seed)
    found = fit(Engine(made.model), other_questions(80), {site: 1}, fitting)[site]
    assert angles(found, planted)[0] < 0.1
    assert (
        angles(fit(Engine(made.model), other_questions(20), {site: 1}, Fitting(0, seed=seed))[site], planted)[0] > 0.5
    )


def test_what_is_learnt_is_exchanged_and_all_of_a_site_is_the_site():
    """By hand from the rows that the result holds; what is taken from the counterpart's run is the rows' part alone.

    The random control's are drawn: nothing is learnt for it.
    """
    result = ask(MODEL, EPISODES, TRAIN, **COMMON, controls=["random"], tensors=SITES)
    (name,) = (name for name in result.subspaces if "k_2" in name)
    rows = torch.from_numpy(result.subspaces[name].rows)
    assert rows.shape == (2, 5)
    (random,) = drawn(Engine(MODEL.model), {parse_site(SITE): 2}, 0).values()

    def few(rows: Tensor) -> Condition:
        def edits(trial: Trial) -> Edits:
            assert trial.other is not None
            lent = forward(trial.net, trial.other, trial.output, {})[SITE]

            def change(old: Tensor, seen: Values) -> Tensor:
                return old + sum(((lent - old) @ one)[:, None] * one for one in rows)

            return {SITE: change}

        return edits

    conditions = {
        "before": nothing, "set, whole": borrow([SITE]), "set, k = 2": few(rows), "set, k = all": borrow([SITE]),
        "set, k = 2, random": few(torch.from_numpy(random)), "set, k = all, random": borrow([SITE]),
        "ceiling": borrow(["enc.tok"]),
    }  # fmt: skip
    same(result, conditions, trials(net_of(MODEL), EPISODES, OTHERS), SITES)


def test_the_shuffled_control_is_learnt_from_shuffled_counterparts():
    """Not only judged with them: what it finds is what a search finds on pairs that were shuffled by hand."""
    few = {"arity": 2, "split": "validation"}
    keys = {"k": 1, "episodes": few | {"count": 3}, "train": few | {"count": 12, "seed": 1}, "rate": 0.1}
    recipe = build_recipe(**COMMON | ALONE | keys)
    asked = Experiment(recipe, MODEL, mixed=True)
    asked.run_whole()
    learning, site = recipe.recipe.learning, parse_site(SITE)
    assert learning is not None
    pairs = training_pairs(MODEL, learning, asked.inputs)
    others = shuffled(pairs.examples, pairs.counterparts, 0)
    assert others != list(pairs.counterparts)
    wanted = fit(Engine(MODEL.model), Pairs(pairs.examples, others), {site: 1}, Fitting(2, 0.1))[site]
    (found,) = asked.learnt.values()
    assert np.array_equal(found, wanted)
    own = fit(Engine(MODEL.model), pairs, {site: 1}, Fitting(2, 0.1))[site]
    assert not np.array_equal(found, own)


def test_a_search_learns_at_the_places_that_it_is_judged_at():
    few, site = {"arity": 2, "split": "validation"}, parse_site(SITE)
    keys = {"k": 1, "episodes": few | {"count": 3}, "train": few | {"count": 12, "seed": 1}, "rate": 0.1, "places": [1]}
    asked = Experiment(build_recipe(**COMMON | ALONE | keys), MODEL)
    asked.run_whole()
    learning = asked.loaded.recipe.learning
    assert learning is not None
    pairs = training_pairs(MODEL, learning, asked.inputs)
    (found,) = asked.learnt.values()
    here, everywhere = (
        fit(Engine(MODEL.model), pairs, {site: 1}, Fitting(2, 0.1, places=places))[site] for places in ((1,), ())
    )
    assert np.array_equal(found, here)
    assert not np.array_equal(found, everywhere)


def test_where_example_and_counterpart_agree_nothing_is_learnt():
    """The question's second token is its function, the same in both. At the first there is something to learn."""
    site, pairs = parse_site("enc.tok"), Pairs([e.answering(o.answer) for e, o in PAIRS[:8]], [o for _, o in PAIRS[:8]])
    start, second, first = (
        fit(Engine(MODEL.model), pairs, {site: 1}, Fitting(epochs, 0.1, places=places))[site]
        for epochs, places in ((0, ()), (2, (2,)), (2, (1,)))
    )
    np.testing.assert_allclose(second, start, rtol=0, atol=1e-12)
    assert np.abs(first - start).max() > 1e-3


def test_controls_stand_beside_it():
    result = ask(MODEL, EPISODES, TRAIN, **COMMON | {"k": 1})
    controls = {row.level(CONTROL) for row in result.rows if row.level("k") == 1}
    assert controls == {None, "random", "other heads", "shuffled", "random weights"}
    assert {row.level("k") for row in result.rows} == {None, 1, "whole"}
    (name,) = result.subspaces
    assert name.startswith("set_k_1")


def probability(model: Checkpoint, shown: list, others: list) -> float:
    """Of the right answers with the whole site taken from the other prompts, on average."""
    found = []
    for trial, episode in zip(trials(net_of(model), shown, others), shown, strict=True):
        said = trial.run(borrow([SITE])(trial))["logits"].log_softmax(-1)
        found.append(float(sum(said[n, ID[token]] for n, token in enumerate((*episode.answer, "EOS"))).exp()))
    return sum(found) / len(found)


def test_controls_are_what_they_are_called():
    """Counterparts of other examples, and another model: both by hand where the whole site is exchanged."""
    shown, own = [e for e, _ in PAIRS[:9]], [other for _, other in PAIRS[:9]]
    lent, stranger = shuffled(shown, own, 0), with_random_weights(MODEL, 0)
    assert lent != own
    keys = COMMON | {"k": 1, "epochs": 1, "controls": ["shuffled", "random-weights"]}
    keys["measures"] = [{"name": "answer-probability"}]
    result = ask(MODEL, shown, [e for e, _ in PAIRS[9:19]], **keys)
    found = {row.level(CONTROL): row.value for row in result.rows if row.level("k") == "whole"}
    wanted = {None: probability(MODEL, shown, own), "shuffled": probability(MODEL, shown, lent)}
    assert found == pytest.approx(wanted | {"random weights": probability(stranger, shown, own)}, rel=1e-6)


def test_other_weights_leave_the_model_alone():
    before = {name: weight.clone() for name, weight in MODEL.transformer.named_parameters()}
    one, two = with_random_weights(MODEL, 0), with_random_weights(MODEL, 0)
    assert one.task is MODEL.task
    for name, weight in MODEL.transformer.named_parameters():
        drawn = dict(one.transformer.named_parameters())[name]  # type: ignore[attr-defined]
        assert torch.equal(weight, before[name])
        assert torch.equal(drawn, dict(two.transformer.named_parameters())[name])  # type: ignore[attr-defined]
        assert torch.equal(drawn, weight) == (weight.ndim < 2)


def test_nothing_that_is_judged_is_learnt_from():
    task = MODEL.task
    wanted = Learning(task.selection(split="validation", arity=2, count=40), "index-in-question", 1, 0.1)
    drawn = task.examples(wanted.train, MODEL.data_seed, "index-in-question")
    judged = [e for e in drawn if counterpart(e, "index-in-question")][:5]
    others = [counterpart(e, "index-in-question") for e in judged]
    pairs = training_pairs(MODEL, wanted, Inputs(judged, others))
    seen = {e.prompt for e in (*judged, *others)}
    assert len(pairs.examples) >= 30
    assert seen.isdisjoint(e.prompt for e in (*pairs.examples, *pairs.counterparts))
    strangers = list(task.split("test", MODEL.data_seed))[:5]
    lent = training_pairs(MODEL, wanted, Inputs(strangers, judged))  # what judges only lends its values
    assert len(lent.examples) >= 30
    assert {e.prompt for e in judged}.isdisjoint(e.prompt for e in (*lent.examples, *lent.counterparts))
    given = training_pairs(MODEL, wanted, Inputs(strangers, others))  # and what training would borrow from
    assert {e.prompt for e in others}.isdisjoint(e.prompt for e in (*given.examples, *given.counterparts))


def test_it_is_learnt_on_what_the_judged_examples_leave():
    """Both drawn alike, as of a file without splits, they would be the same."""
    task = MODEL.task
    wanted = Learning(task.selection(split="validation", arity=2, count=20), "index-in-question", 1, 0.1)
    judged = task.examples(wanted.train, MODEL.data_seed, "index-in-question")
    pairs = training_pairs(MODEL, wanted, Inputs(judged, [counterpart(e, "index-in-question") for e in judged]))
    seen = {one.prompt for e in judged for one in (e, counterpart(e, "index-in-question"))}
    assert 8 <= len(pairs.examples) <= 20
    assert seen.isdisjoint(e.prompt for e in (*pairs.examples, *pairs.counterparts))
    everything = task.selection(split="validation", arity=2, count=10_000)
    judged = task.examples(everything, MODEL.data_seed, "index-in-question")
    with pytest.raises(KeyedError, match=r"0 examples .* a search needs at least 8"):
        training_pairs(MODEL, wanted, Inputs(judged, [counterpart(e, "index-in-question") for e in judged]))


FAULTS = {
    "has 5 dimensions, not 6": {"k": 6},
    "k: a number stands there twice": {"k": [1, 1]},
    "why nothing runs beside it": {"controls": []},
    "has no features of its own": {"sets": [{"name": "set", "sites": "enc-self-0.1.pattern"}]},
    "not every site has another head": {
        "sets": [{"name": "set", "sites": "enc-mlp-1"}], "controls": ["other-heads"],
    },
    "does not depend on the prompt": {"sets": [{"name": "set", "sites": "enc.pos"}]},
    "each needs a name of its own": {"sets": [{"name": "before", "sites": SITE}]},
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
def test_faults(text: str):
    with pytest.raises(SteerError, match=text):
        ask(MODEL, EPISODES, TRAIN, **COMMON | FAULTS[text])


def test_from_python_and_as_files(tmp_path: Path):
    keys = {"epochs": 1, "train": 10, "episodes": 6, "no_controls": "a test"}
    result = steer.align("enc-self-0.0.z", "index-in-question", 1, "tiny", out=tmp_path, **keys)
    assert result.folder is not None
    (file,) = result.folder.glob("enc-self-0.0.z_k_1*.safetensors")
    found = read_direction(file)
    assert found.rows.shape[0] == 1
    assert found.about.way == "align"
    assert found.about.site == "enc-self-0.0.z"
    assert (result.folder / "figure.png").is_file()
    again = steer.align("enc-self-0.0.z", "index-in-question", 1, "tiny", seeds=2, **keys)
    rows: list[Row] = again.rows
    assert {row.level("seed") for row in rows} == {0, 1}
    first = find(rows, condition="enc-self-0.0.z, k = 1", levels=(("seed", 0), ("set", "enc-self-0.0.z"), ("k", 1)))
    assert first is not None
    assert first.value == find(result.rows, condition="enc-self-0.0.z, k = 1").value  # type: ignore[union-attr]
    assert load_checkpoint("tiny").weights.sha256 == found.about.sha256
