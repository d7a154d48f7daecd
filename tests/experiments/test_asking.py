"""One prompt steered: what is told of it, against the answers and the attention found by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from by_hand import Condition, borrow, nothing, say
from by_hand_net import ids
from by_hand_task import answer, mirrored
from matplotlib.figure import Figure
from small import net_of, of_arity, talker, trials

from steer.commands.ask import answer_text
from steer.drawing.figures.pattern import draw_before_after
from steer.experiments.ask import SteeredAnswer, ask
from steer.tasks.compositional.counterparts import counterpart

MODEL = talker()
NET = net_of(MODEL)
SITES = ("dec-cross-0.2.z", "dec-cross-1.1.z")


def asked() -> list[tuple[SteeredAnswer, Condition]]:
    """Two prompts, each steered at some sites; a random model changes its answer, and not to the predicted one."""
    return [(ask(MODEL, episode, "relative-index", SITES), borrow(SITES)) for episode in of_arity(2, 2)]


def test_answers_are_those_of_the_prompt_the_prediction_and_the_steered_run():
    for episode, (told, steering) in zip(of_arity(2, 2), asked(), strict=True):
        (trial,) = trials(NET, [episode], [counterpart(episode, "relative-index")])
        assert told.answer == tuple(token for token in say(trial, nothing) if token != "EOS")
        assert told.steered == tuple(token for token in say(trial, steering) if token != "EOS")
        assert told.right == tuple(answer(episode.prompt))
        assert told.predicted == tuple(answer(mirrored(episode.prompt)))
        assert told.sites == SITES


def test_a_changed_answer_is_not_yet_the_predicted_one():
    found = [told for told, _ in asked()]
    assert any(told.steered != told.answer for told in found)
    assert any(told.steered == told.answer for told in found)
    for told in found:
        assert told.steered != told.predicted
        assert "(not as predicted" in answer_text(told)
        assert "(as predicted" in answer_text(replace(told, steered=told.predicted))


def test_attention_is_that_of_a_run_with_its_own_answer_fed_in():
    for episode, (told, steering) in zip(of_arity(2, 2), asked(), strict=True):
        other = counterpart(episode, "relative-index")
        for shown, said, condition in ((told.before, told.answer, nothing), (told.after, told.steered, steering)):
            (trial,) = trials(NET, [episode], [other])
            trial.output = ids(("SOS", *said))
            by_hand = trial.run(condition(trial))["dec-cross-1.0.pattern"]
            assert shown.queries == ("SOS", *said)
            np.testing.assert_allclose(shown.weights, by_hand, atol=1e-10)


def test_the_picture_names_what_was_before_and_what_was_steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn: list[Figure] = []
    monkeypatch.setattr("steer.drawing.figures.pattern.save_figure", lambda figure, *given: drawn.append(figure))
    told, _ = asked()[0]
    draw_before_after(told.before, told.after, tmp_path, "ask")
    maps = [axes for axes in drawn[0].axes if axes.get_title(loc="left")]
    assert len(maps) == 2
    for axes in maps:
        name, said = axes.get_title(loc="left").split(": ")
        shown = {"before": told.before, "steered": told.after}[name.rpartition(", ")[2]]
        assert said == (" ".join(shown.answer) or "no answer")
        np.testing.assert_allclose(axes.images[0].get_array(), shown.weights)
