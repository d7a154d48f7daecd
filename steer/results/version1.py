"""From format 1 to format 2, for results and circuits: plain data in, plain data out.

In format 1 words carried meaning: "all" for all positions, the names of the ends of a scale, the names of measures
that are not percentages. Nothing else in the package knows these words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from steer.base.json import Json

UNITS = {"logit-attribution": "logit", "ov-alignment": "product", "r-squared": "r2"}
ENDS = {
    "nothing ablated": "nothing",
    "nothing ablated before the chain": "unchanged",
    "everything ablated": "everything",
}
UNABLATED = ("clean", "steer", "position-swap")
SAME = (
    "name", "checkpoint", "hash", "recipe", "changes", "edited", "layer_norm", "intervals", "forwards", "device",
    "dtype", "versions", "seconds",
)  # fmt: skip
CHANGES = (
    "rows: `head` is now `of`, `null` is `chance`, `episodes` is `examples`; `position` is a number, or empty for all",
    "rows: `unit` and `end` state what the names of measures and conditions implied",
    "details: one list, each entry with its `kind`",
    "provenance: kind, description, figures and the wanted number of examples stand beside the recipe",
)
CIRCUIT_CHANGES = (
    "members: each has its `block`",
    "evidence: checks are under `check`, groups of questions under `groups`; `asked` is now `settings`",
)


def result_from_1(data: Json) -> Json:
    """A `result.json` of format 2."""
    details = data.get("details", {})
    return {
        "format": 2,
        **provenance_from_1(data),
        "rows": [row_from_1(row) for row in data["rows"]],
        "details": [change(one) for name, change in DETAILS.items() for one in details.get(name, ())],
    }


def provenance_from_1(data: Json) -> Json:
    recipe, figure = data["recipe"], data["recipe"]["figure"]
    new = {key: data[key] for key in SAME if key in data}
    new |= {"examples": data["episodes"], "wanted": recipe["episodes"]["count"], "kind": recipe["kind"]}
    new |= {"description": recipe["description"], "figures": [figure] if isinstance(figure, str) else figure}
    new |= {"shown": recipe["sets"][-1]["name"] if recipe["kind"] == "steer" else ""}
    return new | {"ablation": "" if recipe["kind"] in UNABLATED else _ablation(data["ablation"], recipe["ablation"])}


def _ablation(text: str, ablation: Json) -> str:
    kept = ablation["value"] == "resample" or (ablation["value"], ablation["over"]) == ("mean", "position")
    return f"{text}; position embeddings keep their values" if kept else text


def row_from_1(row: Json) -> Json:
    same = {key: row[key] for key in ("condition", "measure", "value", "low", "high", "counted")}
    place = None if row["position"] == "all" else int(row["position"])
    new = {"examples": row["episodes"], "of": row["head"], "against": row["against"], "decoding": row["decoding"]}
    new |= {"position": place, "unit": UNITS.get(row["measure"], "share"), "end": ENDS.get(row["condition"], "")}
    return same | new | {"chance": row.get("null"), "tokens": row.get("tokens", ""), "warning": row.get("warning", "")}


def _pattern(one: Json) -> Json:
    same = ("head", "answer", "queries", "keys", "weights", "condition", "roles")
    return {"kind": "pattern", "prompt": one["episode"]} | {key: one[key] for key in same}


def _scatter(one: Json) -> Json:
    return {"kind": "scatter", **one}


def _histogram(one: Json) -> Json:
    same = {key: one[key] for key in ("condition", "head", "tokens", "above_null", "edges")}
    return {"kind": "histogram", **same, "own": _sample(one, "own"), "others": _sample(one, "null")}


def _sample(one: Json, name: str) -> Json:
    return {"counts": one[name]} | {key: one[f"{name}_{key}"] for key in ("mean", "low", "high")}


def _transcript(one: Json) -> Json:
    return {"kind": "transcript", **one}


DETAILS: dict[str, Callable[[Json], Json]] = {
    "patterns": _pattern,
    "points": _scatter,
    "alignments": _histogram,
    "examples": _transcript,
}


def circuit_from_1(data: Json) -> Json:
    """A `circuit.yaml` of format 2."""
    members = [{"node": one["node"], "block": _block(one["node"])} | one for one in data.get("members", ())]
    evidence = data.get("evidence")
    return data | {"format": 2, "members": members, "evidence": _evidence(evidence) if evidence else None}


def _block(name: str) -> str:
    numbered = re.fullmatch(r"(.+-\d+)(?:\.\d+)?", name)
    if numbered:
        return numbered[1]
    return "prompt" if name.startswith("enc") else "answer so far"


def _evidence(old: Json) -> Json:
    same = ("steer", "searched_on", "traced_from", "read_by", "ablation", "threshold", "scale", "majority")
    new = {"settings": old.get("asked")} | {key: old[key] for key in (*same, "logit_shares", "look_alikes", "curve")}
    return new | {"check": _check(old) if old.get("smallest_circuit") else None}


def _check(old: Json) -> Json:
    smallest, opinions = dict(old["smallest_circuit"]), old["second_opinions"]
    smallest.pop("unit", None)
    smallest |= {key: _grouped(smallest[key]) for key in ("faithfulness", "random_circuits")}
    traced = old["traced_heads"] | {"faithfulness": _grouped(old["traced_heads"]["faithfulness"])}
    gradients = opinions and {"paths": opinions["paths"], **opinions["rank_correlation_with_exact"]}
    return {
        "judged_on": old["judged_on"], "traced_heads": traced, "smallest_circuit": smallest,
        "model_without": {name: _grouped(kept) for name, kept in old["model_without"].items()},
        "choice": old["choice"], "gradients": gradients,
        "interchange": [_interchange(one) for one in old["interchange"]],
    }  # fmt: skip


def _grouped(old: Json) -> Json:
    groups = {key.replace("_", " "): value for key, value in old.items() if isinstance(value, dict)}
    return {key: value for key, value in old.items() if not isinstance(value, dict)} | {"groups": groups}


def _interchange(old: Json) -> Json:
    return {key: value for key, value in old.items() if key != "episodes"} | {"examples": old["episodes"]}
