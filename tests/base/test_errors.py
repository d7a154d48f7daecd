"""Faults: a message, and the parts that it is made of."""

from __future__ import annotations

import pickle

import pytest

from steer.base.errors import ConfigError, Fault, KeyedError, SteerError
from steer.base.yaml import Strict, check, parse


@pytest.mark.parametrize(
    ("place", "key", "message"),
    [
        ("f.yaml:3:5", ("a", 0), "f.yaml:3:5: wrong"),
        ("", ("a", 0), "a.0: wrong"),
        ("", (), "wrong"),
    ],
)
def test_a_fault_is_printed_with_its_place_or_else_with_its_key(place: str, key: tuple, message: str):
    fault = Fault(place, key, "wrong")
    assert fault == str(fault) == message
    assert (fault.place, fault.key, fault.text) == (place, key, "wrong")


def test_a_fault_keeps_its_parts_on_the_way_between_processes():
    fault = pickle.loads(pickle.dumps(Fault("f.yaml:3:5", ("a", 0), "wrong")))
    assert (str(fault), fault.place, fault.key, fault.text) == ("f.yaml:3:5: wrong", "f.yaml:3:5", ("a", 0), "wrong")


def test_a_plain_text_is_a_fault_without_place_or_key():
    (fault,) = SteerError("a: b").faults
    assert (fault.place, fault.key, fault.text) == ("", (), "a: b")


def test_keyed_faults_give_back_their_pairs():
    pairs = [(("a", 1), "one"), ((), "two")]
    error = KeyedError(pairs)
    assert error.placed == pairs
    assert str(error) == "a.1: one\ntwo"


class Small(Strict):
    count: int = 0


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("count: many", ("count",), "count: input should be a valid integer"),
        ("cuont: 3", ("cuont",), "unknown key 'cuont'"),
        ("count: yes", ("count",), "count: should be a number"),
        ("count: 1\ncount: 2", ("count",), "the key 'count' stands here twice"),
    ],
)
def test_a_fault_of_a_file_has_place_key_and_text(text: str, key: tuple, says: str):
    with pytest.raises(ConfigError) as caught:
        check(parse(text, "f.yaml"), Small)
    (fault,) = caught.value.faults
    assert fault.place.startswith("f.yaml:")
    assert fault.key == key
    assert fault.text.startswith(says)
