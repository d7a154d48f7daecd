"""A circuit, and several side by side, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steer.anatomy.names import ROLES
from steer.results.circuit import Circuit, Estimate
from steer.tasks.compositional.roles import ATTENDED

KEPT = {"": "", ", one argument": "one_argument", ", two arguments": "two_arguments"}


def describe(circuit: Circuit, paths: bool = True) -> str:
    """Roles, what was checked and, unless there are several circuits to tell of, every path."""
    name, evidence = circuit.checkpoint.name, circuit.evidence
    if not evidence.get("traced_from"):
        return f"{name}: no head writes the answer; no circuit was found"
    single = {(edge.source, edge.target) for edge in circuit.edges}
    counted = f"{len(single)} paths ({len(circuit.edges)} with the port that they were read at)"
    searched = f"searched on {evidence['searched_on']}, threshold {evidence['threshold']}"
    lines = [f"{name}: {counted}, {searched}", f"traced from {_traced_from(evidence)}", "", "roles"]
    scores = {member.node: member for member in circuit.members}
    for role in ROLES:
        heads = circuit.roles.get(role, ())
        told = [f"{head} ({_percent(scores[head].score)})" for head in heads]
        lines.append(f"  {role:22}{', '.join(told) or 'no head'}")
    unnamed = [m.node for m in circuit.members if m.role is None and "-" in m.node and "mlp" not in m.node]
    lines.append(f"  {'matter, fit no role':22}{', '.join(unnamed) or 'none'}")
    written = [f"{node} {share['value']:.0%}" for node, share in _by_value(evidence["logit_shares"])]
    lines.append(f"  {'write the choice':22}{', '.join(written) or 'none'}")
    verdict = _verdict(circuit) if evidence.get("smallest_circuit") else ["", "the task is not done: nothing to check"]
    return "\n".join([*lines, *verdict, *(_paths(circuit) if paths else [])])


def _traced_from(evidence: dict[str, Any]) -> str:
    how = {
        "attention": "which look at the next token and write it; read by their attention",
        "writing": "which write the choice and do not look at the next token; read by what they write",
    }
    return f"{', '.join(evidence['traced_from'])}, {how[evidence['read_by']]}"


def _by_value(shares: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    return sorted(shares.items(), key=lambda entry: -entry[1]["value"])


def _paths(circuit: Circuit) -> list[str]:
    lines = ["", f"{'path':38}{'sufficient':>12}{'necessary':>12}   read at"]
    for edge in circuit.edges:
        path = f"{edge.source} -> {edge.target}"
        company = "" if edge.in_company is None else f"   (with the others: +{edge.in_company.value:.2f})"
        lines.append(
            f"{path:38}{edge.sufficiency.value:>12.2f}{edge.necessity.value:>12.2f}   {edge.measured_at}{company}"
        )
    for group in circuit.groups:
        lines.append(
            f"stand in for one another at {group.target}: {', '.join(group.heads)} "
            f"(lost: {group.alone.value:.2f} at most alone, {group.together.value:.2f} together)"
        )
    return lines


def _verdict(circuit: Circuit) -> list[str]:
    judged, opinions = circuit.evidence["smallest_circuit"], circuit.evidence["second_opinions"]
    kept, chance, gaps = judged["faithfulness"], judged["random_circuits"], judged["completeness"]
    gaze, traced = judged["output_attention"], circuit.evidence["traced_heads"]
    lines = [
        "",
        f"checked on {circuit.evidence['judged_on']}; heads outside a set are mean-ablated, MLPs are kept",
        f"  traced paths          their {traced['heads']} heads keep {_kept(traced['faithfulness'])}",
        f"  smallest faithful set {judged['heads']} heads keep {_kept(kept)}",
        f"  random sets           {chance['mean']:.1%} on average, from {chance['min']:.1%} to {chance['max']:.1%}"
        + (f"; two arguments {chance['two_arguments']['mean']:.1%}" if "two_arguments" in chance else ""),
        f"  without one MLP       the whole model keeps {_mlps(circuit.evidence['model_without'])}",
        f"  completeness          mean gap {gaps['mean_gap']:.1%}, largest {gaps['max_gap']:.1%} "
        f"({gaps['subsets']} subsets, without which the model keeps {gaps['model_keeps']:.0%})",
        f"  least needed head     {min(judged['minimality'].items(), key=lambda entry: entry[1])[0]}",
    ]
    lines.append(f"  choice                {_choice(circuit.evidence['choice'])}")
    if gaze:
        lines.append(
            f"  output attention      {gaze['clean']['value']:.1%} clean, {gaze['circuit']['value']:.1%} in that set "
            f"({gaze['head']}, two-argument questions)"
        )
    if opinions:
        correlation = opinions["rank_correlation_with_exact"]
        lines.append(
            f"  gradients agree       EAP {correlation['eap']:.2f}, EAP-IG {correlation['eap_ig']:.2f} "
            f"(rank correlation with exact effects, {opinions['paths']} paths)"
        )
    for row in circuit.evidence["interchange"]:
        null = "too few other heads to compare" if row["null"] is None else f"other heads {row['null']:.1%}"
        lines.append(
            f"  {row['variable']} at {row['sites']}: {row['accuracy']['value']:.1%} of answers follow "
            f"({null}, ceiling {row['ceiling']['value']:.1%})"
        )
    return lines


def compare(circuits: Sequence[Circuit]) -> str:
    """Heads matched across checkpoints by role, the lead first, as layer.head."""
    judged = [circuit.evidence.get("smallest_circuit") for circuit in circuits]
    rows = {"": [circuit.checkpoint.name for circuit in circuits]}
    rows |= {
        f"{role} ({ATTENDED[role][0]})": [_heads(circuit.roles.get(role, ())) for circuit in circuits] for role in ROLES
    }
    rows["heads that paths are traced from"] = [_heads(c.evidence.get("traced_from", ())) for c in circuits]
    rows["heads of the smallest faithful set"] = [f"{found['heads']}" if found else "-" for found in judged]
    for title, key in KEPT.items():
        rows[f"accuracy it keeps{title}"] = [_part(found["faithfulness"], key) if found else "-" for found in judged]
    moved = [_moved(circuit) for circuit in circuits]
    rows |= {name: [cells.get(name, "-") for cells in moved] for name in dict.fromkeys(n for m in moved for n in m)}
    label = max(map(len, rows))
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    return "\n".join(
        f"{name:{label}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for name, cells in rows.items()
    )


def _moved(circuit: Circuit) -> dict[str, str]:
    """Answers that follow an interchange, of those that could."""
    return {
        f"{row['variable']} at {row['sites']}": f"{row['accuracy']['value']:.0%} of {row['ceiling']['value']:.0%}"
        for row in circuit.evidence.get("interchange", ())
    }


def _kept(found: dict[str, Any]) -> str:
    """A share of the accuracy with its interval, and what it is of each kind of question."""
    parts = ", ".join(f"{title.strip(', ')} {_part(found, key)}" for title, key in KEPT.items() if key in found)
    return f"{found['value']:.1%} of the accuracy ({found['low']:.1%} to {found['high']:.1%})" + f"; {parts}" * bool(
        parts
    )


def _choice(found: dict[str, Any]) -> str:
    """How often each argument's colour is said, with the heads that paths are traced from and without them."""
    clean, ablated = (f"{found['right'][when]['value']:.1%}" for when in ("clean", "ablated"))
    other = f"{found['other_argument']['ablated']['value']:.1%}"
    return f"{clean} of colours right; without {', '.join(found['without'])} {ablated}, the other argument's {other}"


def _mlps(found: dict[str, Any]) -> str:
    return ", ".join(f"{kept['value']:.0%} without {name}" for name, kept in found.items())


def _part(found: dict[str, Any], key: str) -> str:
    part = found.get(key) if key else found
    return f"{part['value']:.1%}" if part else "-"


def _heads(names: Sequence[str]) -> str:
    return ", ".join(name.rsplit("-", 1)[1] for name in names) or "-"


def _percent(score: Estimate | None) -> str:
    return "" if score is None else f"{score.value:.0%}"
