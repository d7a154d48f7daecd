"""Places of an answer in models of two stacks: the first is where its first token is said, whatever opens it."""

from __future__ import annotations

from pathlib import Path

import hugging_by_hand as by_hand
import pytest
from hugging import softmax_in_float64  # noqa: F401 - a fixture
from hugging_by_hand import Condition, Trial
from test_hugging_kinds import LINES, TWO, ask, bare, in_twos, opening, parts_of, same  # noqa: F401
from torch import Tensor

from steer.results.details import PlaceTokens

pytestmark = [pytest.mark.usefixtures("softmax_in_float64"), pytest.mark.parametrize("family", TWO)]
NODE = "dec-cross-0.1"


def zeroed(family: str, places: list[int]) -> Condition:
    def edits(trial: Trial) -> by_hand.Edits:
        def change(old: Tensor) -> Tensor:
            new = old.clone()
            for place in places:
                new[len(opening(family)) - 1 + place - 1] = 0.0
            return new

        return {NODE: change}

    return edits


def test_an_edit_at_places_of_the_answer(family: str, tmp_path: Path):
    """The opening's last token, and the token of the answer that follows it."""
    keys = {
        "kind": "ablate-set",
        "nodes": NODE,
        "ablation": {"value": "zero"},
        "measures": [{"name": "token-accuracy"}],
    }
    for place in (1, 2):
        sites = ["logits", parts_of(family).pattern]
        result = ask(tmp_path / str(place), family, places=[place], tensors=sites, **keys)
        same(result, "nothing ablated", bare, family)
        same(result, "set ablated", zeroed(family, [place]), family)


def test_a_place_is_called_by_what_stands_there(family: str, tmp_path: Path):
    lines = [line | {"counterparts": {"other": {"prompt": line["prompt"].replace("w5", "w6")}}} for line in LINES[:1]]
    keys = {"kind": "activation-patch", "variable": "other", "sites": f"{NODE}.z", "places": ["each"]}
    result = ask(tmp_path, family, lines, **keys, measures=[{"name": "token-accuracy"}])
    (told,) = (one for one in result.details if isinstance(one, PlaceTokens))
    assert told.tokens == ("start", *LINES[0]["answer"].split())
