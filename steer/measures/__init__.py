"""Measures by name, a file each: its keys in a recipe, what it reads, its sums and rows."""

from __future__ import annotations

from steer.base.registry import Registry
from steer.measures.measure import Measure

MEASURES: Registry[type[Measure]] = Registry(
    "steer.measures",
    {
        "attention-accuracy": "steer.measures.attention:AttentionMeasure",
        "attention-mass": "steer.measures.attention:AttentionMeasure",
        "exact-match": "steer.measures.answers:AnswerMeasure",
        "token-accuracy": "steer.measures.answers:AnswerMeasure",
        "logit-difference": "steer.measures.difference:DifferenceMeasure",
        "answer-probability": "steer.measures.probability:ProbabilityMeasure",
        "logit-attribution": "steer.measures.attribution:AttributionMeasure",
        "logit-lens": "steer.measures.lens:LensMeasure",
        "r-squared": "steer.measures.representation:RSquaredMeasure",
        "attention-pattern": "steer.measures.pattern:PatternMeasure",
        "ov-alignment": "steer.measures.alignment:AlignmentMeasure",
    },
)
