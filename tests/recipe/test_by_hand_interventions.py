"""`intervene` against its words: edits that hold together, by hand, one episode at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from by_hand import Trial, borrow, exchange_positions, nothing, put, say
from by_hand_net import Edits, Values, forward
from small import ask, listen, net_of, of_arity, same, talker, trials
from torch import Tensor

from steer.base.errors import SteerError
from steer.experiments.api import build_recipe
from steer.experiments.one import experiment_hash
from steer.results.directions import About, Direction, random_like, read_direction, write_direction
from steer.tasks.compositional.counterparts import counterpart

MODEL = talker()
NET = net_of(MODEL)
SITES = ["enc-self-0.1.z", "enc-mlp-1", "dec-cross-1.0.k", "dec-cross-1.0.pattern", "logits"]
PAIRS = [(e, other) for e in of_arity(2, 60) if (other := counterpart(e, "index-in-question"))][:4]
EPISODES, OTHERS = [e for e, _ in PAIRS], [other for _, other in PAIRS]
COMMON = {
    "kind": "intervene", "variable": "index-in-question", "episodes": {"arity": 2}, "tensors": SITES,
    "measures": [{"name": "exact-match"}],
}  # fmt: skip


@pytest.fixture
def row(tmp_path: Path) -> Path:
    drawn = np.random.default_rng(5).standard_normal((1, 5))
    write_direction(Direction(drawn, About(way="difference", site="enc-self-0.1.z", scores={})), tmp_path / "row")
    return tmp_path / "row"


@pytest.fixture
def plane(tmp_path: Path) -> Path:
    """Two rows that are neither of length one nor at right angles."""
    drawn = np.random.default_rng(6).standard_normal((2, 5)) * 3
    write_direction(Direction(drawn, About(way="align", site="enc-self-0.1.z", scores={})), tmp_path / "plane")
    return tmp_path / "plane"


def lent(trial: Trial) -> Values:
    assert trial.other is not None
    return forward(trial.net, trial.other, trial.output, {})


def conditions(**by_hand):
    return {"before": nothing, **by_hand, "ceiling": borrow(["enc.tok"])}


def test_edits_hold_together_at_every_step_of_decoding():
    """The counterpart's values at one head, two MLPs zeroed, another head doubled, a pattern held as it was."""
    edits = [
        {"sites": "$question-broadcast.z", "from": "counterpart"},
        {"sites": ["dec-mlp-*"], "ablate": "zero"},
        {"sites": "enc-self-2.1.z", "scale": 2, "places": [1, 3]},
        {"sites": "dec-cross-1.2.pattern", "freeze": True},
    ]
    greedy = {"measures": [{"name": "exact-match", "decoding": "greedy"}]}
    result, said = listen(MODEL, EPISODES, **COMMON | greedy, conditions=[{"name": "all", "edits": edits}])

    def by_hand(trial: Trial) -> Edits:
        return {
            "enc-self-0.1.z": put(lent(trial)["enc-self-0.1.z"]),
            "dec-mlp-0": lambda old, seen: torch.zeros_like(old),
            "dec-mlp-1": lambda old, seen: torch.zeros_like(old),
            "enc-self-2.1.z": lambda old, seen: put(2 * old, [1, 3])(old, seen),
            "dec-cross-1.2.pattern": put(trial.clean["dec-cross-1.2.pattern"]),
        }

    made = trials(NET, EPISODES, OTHERS)
    same(result, conditions(all=by_hand), made, SITES)
    assert [said["all"][n] for n in range(len(made))] == [say(trial, by_hand) for trial in made]


def test_a_direction_is_added_in_doses_and_a_random_one_beside_it(row: Path):
    add = {"direction": str(row), "scale": [-2, 0.5]}
    edits = [{"sites": "enc-self-0.1.z", "add": add}]
    result = ask(MODEL, EPISODES, **COMMON, seed=3, conditions=[{"name": "dose", "edits": edits}])
    own = read_direction(row)
    other = random_like(own, 3)
    assert np.isclose(np.linalg.norm(other.rows), np.linalg.norm(own.rows))
    assert abs(float(other.rows[0] @ own.rows[0])) < 0.99 * float(own.rows[0] @ own.rows[0])

    def dose(direction: Direction, scale: float):
        vector = scale * torch.from_numpy(direction.rows[0])
        return lambda trial: {"enc-self-0.1.z": lambda old, seen: old + vector}

    by_hand = {
        "dose, x -2": dose(own, -2.0), "dose, x -2, random 1": dose(other, -2.0),
        "dose, x 0.5": dose(own, 0.5), "dose, x 0.5, random 1": dose(other, 0.5),
    }  # fmt: skip
    same(result, conditions(**by_hand), trials(NET, EPISODES, OTHERS), SITES)


def test_a_control_is_as_long_as_the_row_that_is_added(tmp_path: Path):
    """Of a file with several rows, each of another length."""
    rows = np.random.default_rng(8).standard_normal((3, 5)) * np.array([[1.0], [10.0], [0.1]])
    write_direction(Direction(rows, About(way="principal", site="enc-self-0.1.z", scores={})), tmp_path / "rows")
    for row in range(3):
        edits = [{"sites": "enc-self-0.1.z", "add": {"direction": str(tmp_path / "rows"), "row": row, "scale": 2}}]
        result = ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "dose", "edits": edits}])
        before, own, control = (
            result.tensors[f"{name}/enc-self-0.1.z"][0, 0].numpy() for name in ("before", "dose", "dose, random 1")
        )
        assert np.allclose(own - before, 2 * rows[row])
        assert np.isclose(np.linalg.norm(control - before), 2 * np.linalg.norm(rows[row]))


def test_another_seed_lets_others_lend_their_values():
    """What is resampled is what the head has in another episode; who lends follows from the recipe's seed."""
    shown, site = of_arity(2, 6), "enc-self-0.1.z"
    keys = {"kind": "intervene", "tensors": [site], "measures": [{"name": "exact-match"}]}
    conditions = [{"name": "lent", "edits": [{"sites": site, "ablate": "resample"}]}]
    results = [ask(MODEL, shown, **keys, conditions=conditions, seed=seed) for seed in (0, 0, 1, 2, 3)]
    lenders = [_lenders(result.tensors[f"before/{site}"], result.tensors[f"lent/{site}"]) for result in results]
    assert lenders[0] == lenders[1]
    assert len(set(lenders)) > 1


def _lenders(clean: Tensor, lent: Tensor) -> tuple[int, ...]:
    """For each episode whose value it has at the first token."""
    distances = (lent[:, None, 0] - clean[None, :, 0]).flatten(2).norm(dim=-1)
    found = tuple(distances.argmin(1).tolist())
    assert float(distances.min(1).values.max()) < 1e-9
    assert all(row != other for row, other in enumerate(found))
    return found


def coordinates(rows: np.ndarray) -> list[Tensor]:
    """Orthonormal vectors that span the rows, by Gram and Schmidt."""
    found: list[Tensor] = []
    for one in torch.from_numpy(rows):
        rest = one - sum(((one @ known) * known for known in found), torch.zeros_like(one))
        found.append(rest / rest.norm())
    return found


@pytest.mark.parametrize("inside", ["zero", "mean", "counterpart"])
def test_a_subspace_is_emptied_or_filled(plane: Path, inside: str):
    edits = [{"sites": "enc-self-0.1.z", "project": {"subspace": str(plane), "inside": inside}}]
    keys = COMMON | {"controls": 0, "no_controls": "the random one is tested elsewhere"}
    result = ask(MODEL, EPISODES, **keys, conditions=[{"name": "projected", "edits": edits}])
    basis = coordinates(read_direction(plane).rows)

    def by_hand(trial: Trial) -> Edits:
        site = "enc-self-0.1.z"
        given = {
            "zero": lambda: torch.zeros_like(trial.clean[site]),
            "mean": lambda: trial.ablated(site),
            "counterpart": lambda: lent(trial)[site],
        }[inside]()

        def change(old: Tensor, seen: Values) -> Tensor:
            return old + sum(((given - old) @ one)[:, None] * one for one in basis)

        return {site: change}

    same(result, conditions(projected=by_hand), trials(NET, EPISODES, OTHERS), SITES)


@pytest.mark.parametrize("site", ["enc-self-0.1.q", "dec-self-0.0.k", "dec-cross-1.0.v"])
def test_queries_keys_and_values_have_the_features_of_one_head(row: Path, site: str):
    write_direction(Direction(read_direction(row).rows, About(way="difference", site=site, scores={})), row)
    edits = {"added": {"add": {"direction": str(row)}}, "zeroed": {"ablate": "zero"}}
    keys = COMMON | {"controls": 0, "no_controls": "the random one is tested elsewhere"}
    told = [{"name": name, "edits": [{"sites": site, **edit}]} for name, edit in edits.items()]
    vector = torch.from_numpy(read_direction(row).rows[0])
    write_direction(Direction(vector[None].numpy(), About(way="difference", site=site, scores={})), row)
    by_hand = conditions(
        added=lambda trial: {site: lambda old, seen: old + vector},
        zeroed=lambda trial: {site: lambda old, seen: torch.zeros_like(old)},
    )
    same(ask(MODEL, EPISODES, **keys, conditions=told), by_hand, trials(NET, EPISODES, OTHERS), SITES)


@pytest.mark.parametrize("site", ["enc-self-0.1.pattern", "logits"])
def test_attention_and_logits_can_be_nothing(site: str):
    told = [{"name": "zeroed", "edits": [{"sites": site, "ablate": "zero"}]}]
    by_hand = conditions(zeroed=lambda trial: {site: lambda old, seen: torch.zeros_like(old)})
    same(ask(MODEL, EPISODES, **COMMON, conditions=told), by_hand, trials(NET, EPISODES, OTHERS), SITES)


def test_a_path_edit_is_seen_by_one_port_alone():
    """A head of the encoder, tripled everywhere, is taken out of one head's keys; positions are exchanged elsewhere."""
    edits = [
        {"sites": "enc-self-1.0.z", "scale": 3},
        {"sites": "enc-self-1.0", "ablate": "zero", "into": "dec-cross-1.0.k"},
        {"sites": "enc-self-2.2.v", "from": "positions"},
    ]
    result = ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "path", "edits": edits}])

    def by_hand(trial: Trial) -> Edits:
        def keys(old: Tensor, seen: Values) -> Tensor:
            stream = seen["enc-resid-2.post"] - seen["enc-self-1.0.out"]
            return trial.net.read("dec-cross-1.0.k", stream)

        tripled = {"enc-self-1.0.z": lambda old, seen: 3 * old, "dec-cross-1.0.k": keys}
        return {**tripled, **exchange_positions(["enc-self-2.2.v"])(trial)}

    same(result, conditions(path=by_hand), trials(NET, EPISODES, OTHERS), SITES)


def test_two_paths_into_one_port_are_both_changed():
    """The stream that the port reads lacks one head and has another one twice."""
    port = "dec-cross-1.0.k"
    first = {"sites": "enc-self-1.0", "ablate": "zero", "into": port}
    second = {"sites": "enc-self-2.2", "scale": 2, "into": port}
    result = ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "both", "edits": [first, second]}])

    def by_hand(trial: Trial) -> Edits:
        def keys(old: Tensor, seen: Values) -> Tensor:
            changed = seen["enc-resid-2.post"] - seen["enc-self-1.0.out"] + seen["enc-self-2.2.out"]
            return trial.net.read(port, changed)

        return {port: keys}

    same(result, conditions(both=by_hand), trials(NET, EPISODES, OTHERS), SITES)


def test_what_is_frozen_at_some_places_passes_on_the_rest():
    """A stream held at the first place alone: at the others it is moved, and so is what is rebuilt behind it."""
    point = "enc-resid-1.pre"
    edits = [
        {"sites": "enc-self-0.1.z", "scale": 3},
        {"sites": point, "freeze": True, "places": [1]},
        {"sites": "enc-self-1.0", "ablate": "zero", "into": "dec-cross-1.0.k"},
    ]
    result = ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "held", "edits": edits}])

    def by_hand(trial: Trial) -> Edits:
        def keys(old: Tensor, seen: Values) -> Tensor:
            return trial.net.read("dec-cross-1.0.k", seen["enc-resid-2.post"] - seen["enc-self-1.0.out"])

        tripled = {"enc-self-0.1.z": lambda old, seen: 3 * old}
        return {**tripled, point: put(trial.clean[point], [1]), "dec-cross-1.0.k": keys}

    same(result, conditions(held=by_hand), trials(NET, EPISODES, OTHERS), SITES)
    alone = COMMON | {"tensors": []}  # and it is no contradiction where the answer alone is read
    assert ask(MODEL, EPISODES, **alone, conditions=[{"name": "held", "edits": edits}]).rows


FAULTS = {
    "undoes edit 1": [{"sites": "enc-self-0.1.z", "scale": 2}, {"sites": "enc-self-0.1.z", "ablate": "zero"}],
    "dec-cross-1.0.k is replaced here, which undoes edit 1": [
        {"sites": "dec-cross-1.0.k", "scale": 2}, {"sites": "enc-self-1.0", "scale": 2, "into": "dec-cross-1.0.k"},
    ],
    "dec-cross-1.0.k is replaced here, which undoes edit 1 ": [  # one source twice
        {"sites": "enc-self-1.0", "scale": 2, "into": "dec-cross-1.0.k"},
        {"sites": "enc-self-1.*", "scale": 2, "into": "dec-cross-1.0.k"},
    ],
    "enc-self-0.1.z is frozen and edited": [
        {"sites": "enc-self-0.1.z", "freeze": True, "places": [1, 2]},
        {"sites": "enc-self-0.1.z", "scale": 2, "places": [2, 3]},
    ],
    "is frozen and edited": [{"sites": "enc-self-0.1.z", "scale": 2}, {"sites": "enc-self-0.1.out", "freeze": True}],
    "nothing from enc-self-0.1.z arrives": [
        {"sites": "enc-self-0.1.z", "scale": 2}, {"sites": "enc.memory", "freeze": True},
    ],
    "give one of": [{"sites": "enc-self-0.1.z"}],
    "not ablate and scale": [{"sites": "enc-self-0.1.z", "ablate": "zero", "scale": 2}],
    "is no file of a direction": [{"sites": "enc-self-0.1.z", "add": {"direction": __file__}}],
    "cannot be read": [{"sites": "enc-self-0.1.z", "add": {"direction": "nowhere.safetensors"}}],
    "has no features": [{"sites": "enc-self-0.1.pattern", "add": {"direction": "nowhere.safetensors"}}],
    "no other example has a value for it": [{"sites": "enc-self-0.1.pattern", "ablate": "mean"}],
    "scores is between the tokens": [{"sites": "enc-self-0.1.scores", "ablate": "resample"}],
    "enc.pos is the same in every episode, so that mean": [{"sites": ["enc.tok", "enc.pos"], "ablate": "mean"}],
    "so that resample leaves it": [{"sites": "enc.pos", "ablate": "resample", "into": "enc-self-0.1.k"}],
    "dec.tok does not depend on the prompt": [{"sites": ["enc.tok", "dec.tok"], "from": "counterpart"}],
    "enc.pos does not depend on the prompt": [{"sites": "enc.pos", "ablate": "counterpart", "into": "enc-self-0.1.k"}],
    "edits.0: the other edits of this condition replace all that enc-self-0.1.z could": [
        {"sites": "enc-self-0.1.z", "scale": 2}, {"sites": "enc.memory", "from": "counterpart"},
    ],
    "does not feed dec-cross-1.0.k": [{"sites": "dec-mlp-0", "ablate": "zero", "into": "dec-cross-1.0.k"}],
}  # fmt: skip


@pytest.mark.parametrize("text", FAULTS)
def test_contradictions_are_faults(text: str):
    with pytest.raises(SteerError, match=text):
        ask(MODEL, EPISODES, **COMMON | {"tensors": []}, conditions=[{"name": "wrong", "edits": FAULTS[text]}])


def test_a_counterpart_needs_a_variable_and_rows_fit_their_site(row: Path):
    keys = {key: value for key, value in COMMON.items() if key != "variable"}
    edits = [{"sites": "enc-self-0.1.z", "from": "counterpart"}]
    with pytest.raises(SteerError, match="a counterpart needs `variable`"):
        ask(MODEL, EPISODES, **keys, conditions=[{"name": "lent", "edits": edits}])
    write_direction(Direction(read_direction(row).rows, About(way="difference", scores={})), row)  # of no site
    edits = [{"sites": "enc-mlp-1", "add": {"direction": str(row)}}]
    with pytest.raises(SteerError, match=r"conditions.0.edits.0.add.direction: .* has 5 features, enc-mlp-1 has 16"):
        ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "added", "edits": edits}])


def test_an_edit_is_not_lost_where_only_a_part_is_replaced():
    """At some places, or for one port: the rest of what an earlier edit changed arrives."""
    for other in ({"sites": "enc.memory", "from": "counterpart", "places": [1]},
                  {"sites": "enc-self-1.*", "ablate": "zero", "into": "dec-cross-1.0.k"}):  # fmt: skip
        told = [{"name": "both", "edits": [{"sites": "enc-self-0.1.z", "scale": 2}, other]}]
        assert ask(MODEL, EPISODES, **COMMON | {"tensors": []}, conditions=told).rows  # the answer alone is read


@pytest.mark.parametrize(
    ("rows", "edit", "says"),
    [
        (np.zeros((1, 5)), {"add": {"direction": "it"}}, "row 0 holds zeros alone"),
        (np.zeros((1, 5)), {"project": {"subspace": "it"}}, "1 rows span 0 dimensions"),
        (np.ones((2, 5)), {"project": {"subspace": "it"}}, "2 rows span 1 dimensions"),
        (np.ones((0, 5)), {"add": {"direction": "it"}}, "the file has 0 rows"),
    ],
)
def test_rows_that_span_nothing_of_their_own_are_faults(tmp_path: Path, rows: np.ndarray, edit: dict, says: str):
    write_direction(Direction(rows, About(way="difference", scores={})), tmp_path / "it")
    told = {way: {key: str(tmp_path / "it") for key in said} for way, said in edit.items()}
    with pytest.raises(SteerError, match=says):
        ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "c", "edits": [{"sites": "enc-self-0.1.z", **told}]}])


def test_no_control_needs_a_reason(row: Path):
    edits = [{"sites": "enc-self-0.1.z", "add": {"direction": str(row)}}]
    with pytest.raises(SteerError, match="why nothing random runs beside it"):
        ask(MODEL, EPISODES, **COMMON, controls=0, conditions=[{"name": "added", "edits": edits}])


def test_what_a_file_holds_is_part_of_the_question(row: Path):
    edits = [{"sites": "enc-self-0.1.z", "add": {"direction": str(row)}}]
    recipe = build_recipe(**COMMON, conditions=[{"name": "added", "edits": edits}]).recipe
    before = experiment_hash(recipe, MODEL)
    write_direction(Direction(2 * read_direction(row).rows, About(way="difference", scores={})), row)
    assert experiment_hash(recipe, MODEL) != before


def test_only_what_goes_through_some_sites_is_taken_over():
    """A head is tripled in a run of its own; two sites behind it are as they are there, all else is clean."""
    between = ["enc-self-1.0.z", "dec-cross-1.0.k"]
    edits = [{"sites": "enc-self-0.1.z", "scale": 3, "through": between}, {"sites": "dec-mlp-0", "scale": 2}]
    result = ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "through", "edits": edits}])

    def by_hand(trial: Trial) -> Edits:
        alone = forward(trial.net, trial.prompt, trial.output, {"enc-self-0.1.z": lambda old, seen: 3 * old})
        return {site: put(alone[site]) for site in between} | {"dec-mlp-0": lambda old, seen: 2 * old}

    same(result, conditions(through=by_hand), trials(NET, EPISODES, OTHERS), SITES)


def test_what_goes_through_some_sites_does_not_go_past_frozen_ones():
    """The only way into a key is frozen but for one head: its run of its own holds the frozen head, too."""
    frozen, target = "enc-self-1.0.z", "dec-cross-1.0.k"
    edits = [{"sites": "enc-self-0.1.z", "scale": 3, "through": target}]
    result = ask(MODEL, EPISODES, **COMMON, freeze=frozen, conditions=[{"name": "through", "edits": edits}])

    def held(trial: Trial) -> Edits:
        return {frozen: put(trial.clean[frozen])}

    def by_hand(trial: Trial) -> Edits:
        tripled: Edits = {"enc-self-0.1.z": lambda old, seen: 3 * old}
        alone = forward(trial.net, trial.prompt, trial.output, tripled | held(trial))
        past = forward(trial.net, trial.prompt, trial.output, tripled)
        assert float((alone[target] - past[target]).abs().max()) > 1e-3
        return held(trial) | {target: put(alone[target])}

    made = trials(NET, EPISODES, OTHERS)
    same(result, conditions(through=by_hand), made, SITES)


def test_values_of_another_condition():
    first = {"name": "first", "edits": [{"sites": "enc-self-0.1.z", "from": "counterpart"}]}
    second = {"name": "second", "edits": [{"sites": "enc-self-1.0.z", "from": {"condition": "first"}}]}
    third = {"name": "third", "edits": [{"sites": "enc-mlp-1", "from": {"condition": "second"}}]}
    greedy = {"measures": [{"name": "exact-match", "decoding": "greedy"}]}
    result, said = listen(MODEL, EPISODES, **COMMON | greedy, conditions=[first, second, third])
    one = borrow(["enc-self-0.1.z"])

    def two(trial: Trial) -> Edits:
        return {"enc-self-1.0.z": put(trial.run(one(trial))["enc-self-1.0.z"])}

    def three(trial: Trial) -> Edits:
        return {"enc-mlp-1": put(trial.run(two(trial))["enc-mlp-1"])}

    made = trials(NET, EPISODES, OTHERS)
    same(result, conditions(first=one, second=two, third=three), made, SITES)
    assert [said["third"][n] for n in range(len(made))] == [say(trial, three) for trial in made]


MORE_FAULTS = {
    "no condition comes before this": [{"sites": "enc-self-0.1.z", "from": {"condition": "later"}}],
    "nothing of the edit goes through it": [{"sites": "enc-self-1.0.z", "scale": 2, "through": "enc-self-0.1.z"}],
    "which undoes edit 1": [
        {"sites": "enc-self-0.1.z", "scale": 2, "through": "enc-self-1.0.z"},
        {"sites": "enc-self-1.0.z", "ablate": "zero"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", MORE_FAULTS)
def test_paths_that_lead_nowhere_are_faults(text: str):
    with pytest.raises(SteerError, match=text):
        ask(MODEL, EPISODES, **COMMON | {"tensors": []}, conditions=[{"name": "wrong", "edits": MORE_FAULTS[text]}])


def test_scales_and_controls_are_columns(row: Path):
    edits = [{"sites": "enc-self-0.1.z", "add": {"direction": str(row), "scale": [-2, 0, 2]}}]
    result = ask(MODEL, EPISODES, **COMMON, conditions=[{"name": "dose", "edits": edits}])
    found = {(r.level("set"), r.level("scale"), r.level("control")) for r in result.rows}
    own = {("dose", scale, None) for scale in (-2.0, 0.0, 2.0)}
    assert found == {(None, None, None), *own, ("dose", -2.0, "random 1"), ("dose", 2.0, "random 1")}


def test_doses_of_two_edits_are_crossed(row: Path):
    """One head gets the direction 1 or 2 times, another -1 or 3 times: four conditions."""
    write_direction(Direction(read_direction(row).rows, About(way="difference", scores={})), row)  # of no site
    edits = [
        {"sites": "enc-self-0.1.z", "add": {"direction": str(row), "scale": [1, 2]}},
        {"sites": "enc-self-1.0.z", "add": {"direction": str(row), "scale": [-1, 3]}},
    ]
    keys = COMMON | {"controls": 0, "no_controls": "the random ones are tested elsewhere"}
    result = ask(MODEL, EPISODES, **keys, conditions=[{"name": "two", "edits": edits}])
    vector = torch.from_numpy(read_direction(row).rows[0])

    def doses(first: float, second: float):
        return lambda trial: {
            "enc-self-0.1.z": lambda old, seen: old + first * vector,
            "enc-self-1.0.z": lambda old, seen: old + second * vector,
        }

    by_hand = {f"two, x {a}, x {b}": doses(a, b) for a in (1, 2) for b in (-1, 3)}
    same(result, conditions(**by_hand), trials(NET, EPISODES, OTHERS), SITES)
    levels = {(one.level("scale"), one.level("scale 2")) for one in result.rows if one.level("set")}
    assert levels == {(1.0, -1.0), (1.0, 3.0), (2.0, -1.0), (2.0, 3.0)}


def test_no_dose_changes_nothing_bitwise_and_all_dimensions_are_the_whole_site(row: Path, tmp_path: Path):
    rng = np.random.default_rng(2)
    rows, about = rng.standard_normal((5, 5)), About(way="align", site="enc-self-0.1.z", scores={})
    write_direction(Direction(rows, about), tmp_path / "all")
    site = {"sites": "enc-self-0.1.z"}
    several = {
        "nothing added": {"add": {"direction": str(row), "scale": 0}},
        "all dimensions": {"project": {"subspace": str(tmp_path / "all"), "inside": "counterpart"}},
        "whole": {"from": "counterpart"},
    }
    named = [{"name": name, "edits": [site | edit]} for name, edit in several.items()]
    tensors = ask(MODEL, EPISODES, **COMMON, conditions=named).tensors
    for read in SITES:
        assert torch.equal(tensors[f"nothing added/{read}"], tensors[f"before/{read}"])
        torch.testing.assert_close(
            tensors[f"all dimensions/{read}"], tensors[f"whole/{read}"], rtol=0, atol=1e-10, equal_nan=True
        )
    assert not torch.equal(tensors["whole/logits"], tensors["before/logits"])


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ([1, 2], [2, 3], True), ([1, 2], [3], False), ([], ["last"], True), (["last"], ["last"], True),
        (["first"], ["second"], False), (["first"], [3], False), (["second"], [3], True), ([1], ["first"], True),
    ],
)  # fmt: skip
def test_two_edits_contradict_each_other_only_where_they_meet(first, second, clash: bool):
    """Where a place has a name, the examples know its number: the arguments are the first and the third token."""
    edits = [{"sites": "enc-self-0.1.z", "scale": 2}, {"sites": "enc-self-0.1.z", "ablate": "zero"}]
    edits = [edit | {"places": places} if places else edit for edit, places in zip(edits, (first, second), strict=True)]
    keys = COMMON | {"tensors": [], "conditions": [{"name": "two", "edits": edits}]}
    if not clash:
        assert ask(MODEL, EPISODES, **keys).rows
        return
    with pytest.raises(SteerError, match=r"conditions.*enc-self-0.1.z is (replaced here, which|edited at .*) undoes"):
        ask(MODEL, EPISODES, **keys)
    weaker = {key: value for key, value in edits[1].items() if key != "ablate"} | {"scale": 0.5}
    freeze = {"freeze": True, "sites": "enc-self-0.1.z"} | ({"places": first} if first else {})
    with pytest.raises(SteerError, match=r"enc-self-0.1.z is (frozen and edited|edited at)"):
        ask(MODEL, EPISODES, **keys | {"conditions": [{"name": "two", "edits": [freeze, weaker]}]})
