"""What a list of results says of each: how it differs from the shipped recipe."""

from __future__ import annotations

from steer.results.listing import changes_against

SHIPPED = {
    "kind": "position-swap", "description": "words", "freeze": ["dec-cross-1.5.q"], "seed": 0,
    "episodes": {"count": 1_000, "arity": 2}, "measures": [{"name": "exact-match"}],
}  # fmt: skip


def test_what_is_other_what_is_more_and_what_is_left_out():
    without = {key: value for key, value in SHIPPED.items() if key != "freeze"}
    cases = {
        (): SHIPPED | {"description": "others"},
        ("freeze=[]",): SHIPPED | {"freeze": []},
        ("freeze is left out",): without,
        ("episodes.count=50", "episodes.arity is left out"): SHIPPED | {"episodes": {"count": 50}},
        ("places=[1, 2]", "freeze is left out"): without | {"places": [1, 2]},
        ("measures=[1 entry]",): SHIPPED | {"measures": [{}]},
        ("seed=none", "measures=[2 entries]"): SHIPPED | {"seed": None, "measures": [{}, {}]},
    }
    for told, content in cases.items():
        assert changes_against(content, SHIPPED) == told
