"""Episodes that are the same but for names, found a second way: by trying every renaming."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tokens import checkpoint_of

from steer.base.dice import Dice
from steer.experiments.accuracy import accuracy
from steer.models.checkpoint import load_checkpoint
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.evaluation import NEW
from steer.tasks.compositional.grammar import relabel
from steer.tasks.compositional.renaming import canonical
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.vocabulary import COLOURS, SYMBOLS

SHOWN = "B S A | A = red | B = blue | A S B = blue red"


def same_by_trying(one: Episode, two: Episode) -> bool:
    """Every map of symbols and colours, and the support as a bag of items."""
    symbols = sorted({token for token in one.prompt if token in SYMBOLS})
    colours = sorted({token for token in one.prompt if token in COLOURS})
    bag = sorted(item.tokens for item in two.support)
    for first in permutations(sorted({token for token in two.prompt if token in SYMBOLS}), len(symbols)):
        for second in permutations(sorted({token for token in two.prompt if token in COLOURS}), len(colours)):
            names = dict(zip([*symbols, *colours], [*first, *second], strict=True))
            if tuple(names[token] for token in one.question.tokens) != two.question.tokens:
                continue
            if sorted(tuple(names.get(token, token) for token in item.tokens) for item in one.support) == bag:
                return True
    return False


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("C R D | C R D = pink green | D = green | C = pink", False),  # asked as it was shown
        ("D R C | C R D = green pink | D = green | C = pink", True),
        ("D R C | C R D = green green | D = green | C = pink", False),
        ("A S B | A = red | B = blue | A S B = blue red", False),
        ("B S A | A = red | B = blue | A S B = blue red | C = pink", False),
    ],
)
def test_names_and_order_do_not_matter_and_all_else_does(other: str, same: bool):
    one, two = Episode.parse(SHOWN), Episode.parse(other)
    assert same_by_trying(one, two) is same
    assert (canonical(one) == canonical(two)) is same


def test_drawn_episodes_agree_with_trying():
    episodes = sorted(make_splits(0).test, key=lambda episode: len(episode.prompt))[:8]
    renamed = [relabel(e, Dice(1, "names", n)) for n, e in enumerate(episodes)]
    for n, one in enumerate(episodes[:4]):
        turned = Episode(renamed[n].question, renamed[n].support[::-1], renamed[n].answer)
        assert canonical(one) == canonical(turned)
        for two in renamed:
            assert (canonical(one) == canonical(two)) is same_by_trying(one, two)


def test_what_training_has_under_other_names_is_left_out():
    episodes = make_splits(0).test[:8]
    trained = [relabel(episode, Dice(2, "names")) for episode in episodes[:3]]
    model = load_checkpoint("tiny").transformer
    report = accuracy(checkpoint_of(model), episodes, trained=trained)
    groups = {score.group: score.episodes for score in report.groups}
    kept = [e for e in episodes if not any(same_by_trying(e, t) for t in trained)]
    assert groups[NEW] == len(kept) <= 5
    assert groups.get(f"{NEW}, two arguments", 0) == int(np.sum([len(e.question.arguments) == 2 for e in kept]))
    assert NEW not in {score.group for score in accuracy(checkpoint_of(model), episodes).groups}
