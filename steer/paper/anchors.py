"""The numbers of the authors' own notebooks, for whoever has imported their weights.

Source: github.com/chengtang827/MLC-transformer-interpretability, branch master at 07b4c06 (16 Feb 2025), folder
`submission`: four notebooks (nb 0 to 3) and the score files beside them. They rest on 25 episodes, 250 questions, of
200 that were listed in no known order, so that a number of ours may be off by chance though nothing differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from steer.paper.verdicts import (
    AS,
    DIFFERS,
    OPEN,
    Claim,
    Finding,
    MissingError,
    Roles,
    Rule,
    Verdict,
    find,
    ruled,
)
from steer.results.result import Result
from steer.results.rows import select

MARGIN, SMALL = 0.05, 0.01  # what 25 episodes may be off by; where all numbers are small
CONTRIBUTION, MASS, R2 = "contribution (authors)", "attention-mass (authors)", "r-squared (authors)"
SOURCE = "github.com/chengtang827/MLC-transformer-interpretability, submission/, at 07b4c06"
OUTPUT = "dec-cross-1.5"
SAME = f"{AS}'s notebooks"


def near(wanted: float, margin: float = MARGIN, position: int | None = None, **fields: str) -> Rule:
    """Is our number theirs? `margin`: with what could not be read off a picture."""

    @ruled(f"within {margin:g} of theirs, which is of 25 episodes; open where only the interval reaches that far")
    def decide(result: Result, roles: Roles) -> Finding:
        if not select(result.rows, measure=fields["measure"]):
            raise MissingError("no question is answered right, and theirs are of such questions alone")
        row = find(result, position, **fields)
        here = f"{row.value:.3f} ({row.low:.3f} to {row.high:.3f})"
        if abs(row.value - wanted) <= margin:
            return Finding(here, SAME, row)
        verdict = OPEN if row.low - margin <= wanted <= row.high + margin else DIFFERS
        return Finding(here, f"{verdict}: {row.value - wanted:+.3f}", row)

    return decide


def _claim(notebook: int, recipe: str, text: str, wanted: float, rule: Rule) -> Claim:
    return Claim(f"nb {notebook}", recipe, text, f"{wanted:g}", rule)


def _kept(
    notebook: int, recipe: str, port: str, scores: Mapping[str, float], how: str = "kept alone"
) -> Iterator[Claim]:
    """The scores of one file: each source of a port kept (or ablated) alone, as a ratio to the clean run."""
    for source, wanted in scores.items():
        rule = near(wanted, condition=source, of=OUTPUT, measure=CONTRIBUTION)
        yield _claim(notebook, recipe, f"{source} into {port}, {how}: contribution", wanted, rule)


def _heads(block: str, scores: Sequence[float]) -> dict[str, float]:
    return {f"{block}.{head}": wanted for head, wanted in enumerate(scores)}


def _accuracy() -> Iterator[Claim]:
    for place, wanted in enumerate((1.00, 1.00, 0.90, 0.63, 0.58), start=1):
        rule = near(wanted, MARGIN + 0.005, place, of=OUTPUT, measure="attention-accuracy (authors)")
        yield _claim(
            0, "nb0_attention_accuracy", f"{OUTPUT}: attention accuracy by copies, position {place}", wanted, rule
        )


def _variance() -> Iterator[Claim]:
    shares = _heads("dec-cross-1", (0.016, 0.121, 0.015, 0.091, 0.024, 0.158, 0.019, 0.006)) | {"dec-cross-0.6": 0.018}
    for head, wanted in shares.items():
        rule = near(wanted, SMALL + 0.002, of=head, measure="variance-share (authors)")
        yield _claim(0, "nb0_variance_share", f"{head}: share of the variance of the decoder's output", wanted, rule)


def _r_squared() -> Iterator[Claim]:
    k, q = "nb1_r_squared", "nb2_r_squared"
    for notebook, recipe, site, condition, wanted in (
        (1, k, "enc-self-0.5.z", "clean", 0.60),
        (1, k, "enc-self-1.1.z", "clean", 0.61),
        (1, k, "dec-cross-1.5.k", "clean", 0.29),
        (1, k, "enc-self-1.1.z", "enc-self-1.1 without its sources", 0.08),
        (1, k, "dec-cross-1.5.k", "without enc-self-1.0 and 1.1", 0.06),
        (2, q, "dec-cross-0.6.z", "clean", 0.16),
        (2, q, "dec-cross-1.5.q", "clean", 0.19),
        (2, q, "dec-cross-0.6.z", "dec-cross-0.6 without its sources", 0.00),
        (2, q, "dec-cross-1.5.q", "dec-cross-1.5 without its sources", 0.02),
    ):
        rule = near(wanted, condition=condition, of=site, measure=R2)
        yield _claim(notebook, recipe, f"{site}, {condition}: R²", wanted, rule)
    without = "dec-cross-1.5 without its sources"
    rule = near(0.3871, condition=without, of=OUTPUT, measure=MASS)
    yield _claim(2, q, f"{without}: attention on the right colour", 0.3871, rule)


def _swap() -> Iterator[Claim]:
    along, one, two = "path kept, nothing exchanged", "nb3_swap_one", "nb3_swap_two"
    for recipe, condition, place, right, other in (
        (one, "before", 1, 0.9548, 0.0210),
        (one, "before", 2, 0.9314, 0.0086),
        (one, along, 1, 0.6229, 0.1028),
        (one, "after", 1, 0.1045, 0.5077),
        (two, "after", 1, 0.0929, 0.5814),
    ):
        for against, wanted in (("answer", right), ("counterfactual", other)):
            rule = near(wanted, MARGIN, place, condition=condition, of=OUTPUT, measure=MASS, against=against)
            colour = "right" if against == "answer" else "other"
            text = f"{condition}, step {place}: attention on the {colour} colour"
            yield _claim(3, recipe, text, wanted, rule)


K_SOURCES = {
    "enc.tok": 0.270, "enc.pos": 0.122,
    **_heads("enc-self-0", (0.104, 0.131, 0.169, 0.132, 0.242, 0.151, 0.170, 0.207)),
    **_heads("enc-self-1", (0.689, 0.988, 0.303, 0.268, 0.237, 0.215, 0.168, 0.250)),
}  # fmt: skip
K_CHAIN = {
    "enc.tok": 0.240, "enc.pos": 0.272,
    **_heads("enc-self-0", (0.163, 0.179, 0.150, 0.223, 0.329, 0.732, 0.140, 0.506)),
}  # fmt: skip
Q_SOURCES = {
    "dec.tok": 0.233, "dec.pos": 0.225,
    **_heads("dec-self-0", (0.113, 0.117, 0.124, 0.119, 0.119, 0.111, 0.113, 0.106)),
    **_heads("dec-cross-0", (0.263, 0.138, 0.109, 0.240, 0.164, 0.138, 0.366, 0.231)),
    **_heads("dec-self-1", (0.118, 0.203, 0.123, 0.132, 0.114, 0.113, 0.129, 0.107)),
}  # fmt: skip
Q_CHAIN = {
    "nothing ablated before the chain": 0.366, "enc.tok": 0.365, "enc.pos": 0.660,
    **_heads("enc-self-0", (0.356, 0.388, 0.343, 0.366, 0.366, 0.364, 0.383, 0.368)),
    **_heads("enc-self-1", (0.257, 0.307, 0.283, 0.340, 0.295, 0.491, 0.362, 0.369)),
}  # fmt: skip

ANCHORS: tuple[Claim, ...] = (
    *_accuracy(),
    *_variance(),
    *_kept(1, "nb1_k_sources", "dec-cross-1.5 K", K_SOURCES),
    *_kept(1, "nb1_k_chain", "enc-self-1.1 V", K_CHAIN),
    *_kept(1, "nb1_k_positions", "enc-self-0.5 V", {"enc.tok": 0.122, "enc.pos": 0.697}),
    *_kept(2, "nb2_q_sources", "dec-cross-1.5 Q", Q_SOURCES),
    *_kept(2, "nb2_q_chain", "dec-cross-0.6 V", Q_CHAIN, "ablated alone"),
    *_r_squared(),
    *_swap(),
)


def judge_anchors(
    results: Mapping[str, Result], roles: Roles, missing: Mapping[str, str], status: str
) -> list[Verdict]:
    """Every number of the notebooks beside this checkpoint's."""
    return [one.judge(results.get(one.recipe), roles, missing.get(one.recipe, ""), status) for one in ANCHORS]
