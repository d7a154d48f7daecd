"""A circuit, and several side by side, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from steer.anatomy.nodes import parse_node
from steer.drawing.tables import make_table, pairs, render
from steer.results.circuit import Circuit
from steer.results.evidence import Check, Choice, Estimate, Evidence, Interchange, Kept
from steer.tasks import TASKS
from steer.tasks.task import Words

READ_BY = {
    "attention": "which look at the next token and write it; read by their attention",
    "writing": "which write the choice and do not look at the next token; read by what they write",
}
NO_ROLES = "which write the choice; read by what they write"
Pair = tuple[str, str]


def describe(circuit: Circuit, paths: bool = True) -> str:
    """Roles, what was checked and, with `paths`, every path."""
    name, evidence = circuit.checkpoint.name, circuit.evidence
    if evidence is None or not evidence.traced_from:
        return f"{name}: no head writes the answer; no circuit was found"
    roles = TASKS[circuit.task].roles
    read_by = READ_BY[evidence.read_by] if roles else NO_ROLES
    single = {(edge.source, edge.target) for edge in circuit.edges}
    counted = f"{len(single)} paths ({len(circuit.edges)} with the port that they were read at)"
    parts: list[Table | str] = [
        f"{name}: {counted}, searched on {evidence.searched_on}, threshold {evidence.threshold}",
        f"traced from {', '.join(evidence.traced_from)}, {read_by}",
        *filter(None, (circuit.checkpoint.numbering,)), "", "roles" if roles else "heads",
        pairs(_roles(circuit, evidence)), "",
    ]  # fmt: skip
    if evidence.check is None:
        parts += ["the task is not done: nothing to check"]
    else:
        judged = f"checked on {evidence.check.judged_on}"
        parts += [
            f"{judged}; heads outside a set are mean-ablated, MLPs are kept",
            pairs(_check(evidence.check, TASKS[circuit.task].words)),
        ]
    return render(*parts, *(_paths(circuit) if paths else []))


def _roles(circuit: Circuit, evidence: Evidence) -> Iterator[Pair]:
    scores = {member.node: member.score for member in circuit.members}
    for role in TASKS[circuit.task].roles:
        heads = [f"{head} ({_percent(scores.get(head))})" for head in circuit.roles.get(role, ())]
        yield f"  {role}", ", ".join(heads) or "no head"
    unnamed = [member.node for member in circuit.members if member.role is None and parse_node(member.node).is_head]
    title = "  matter, fit no role" if TASKS[circuit.task].roles else "  heads that matter"
    yield title, ", ".join(unnamed) or "none"
    shares = sorted(evidence.logit_shares.items(), key=lambda entry: -entry[1].value)
    mlps = evidence.check.model_without if evidence.check else {}
    kept: dict[str, Estimate] = {**mlps, **evidence.without_writer}
    written = [f"{node} {share.value:.0%}{_left(kept.get(node))}" for node, share in shares]
    yield "  write the choice (are needed)", ", ".join(written) or "none"


def _left(kept: Estimate | None) -> str:
    """What is left of the accuracy without a component, beside what it writes."""
    return "" if kept is None else f" (without it {kept.value:.0%} of the accuracy)"


def _paths(circuit: Circuit) -> list[Table | str]:
    lines = []
    for edge in circuit.edges:
        company = "" if edge.in_company is None else f"(with the others: +{edge.in_company.value:.2f})"
        effects = f"{edge.sufficiency.value:.2f}", f"{edge.necessity.value:.2f}"
        lines.append((f"{edge.source} -> {edge.target}", *effects, edge.measured_at, company))
    titles = ("path", "sufficient", "necessary", "read at", "")
    groups = [
        f"stand in for one another at {group.target}: {', '.join(group.heads)} "
        f"(lost: {group.alone.value:.2f} at most alone, {group.together.value:.2f} together)"
        for group in circuit.groups
    ]
    return ["", make_table(titles, lines, ("sufficient", "necessary")), *groups]


def _check(check: Check, words: Words) -> Iterator[Pair]:
    smallest, chance = check.smallest_circuit, check.smallest_circuit.random_circuits
    traced = check.traced_heads
    yield "  traced paths", f"their {traced.heads} heads keep {_kept(traced.faithfulness)}"
    yield "  smallest faithful set", f"{smallest.heads} heads keep {_kept(smallest.faithfulness)}"
    groups = "".join(f"; {name} {spread.mean:.1%}" for name, spread in chance.groups.items())
    yield "  random sets", f"{chance.mean:.1%} on average, from {chance.min:.1%} to {chance.max:.1%}{groups}"
    yield "  without one MLP", f"the whole model keeps {_mlps(check.model_without)}"
    if (gaps := smallest.completeness) is not None:
        without = f"{gaps.subsets} subsets, without which the model keeps {gaps.model_keeps:.0%}"
        yield "  completeness", f"mean gap {gaps.mean_gap:.1%}, largest {gaps.max_gap:.1%} ({without})"
    if smallest.minimality:
        yield "  least needed head", min(smallest.minimality, key=smallest.minimality.__getitem__)
    yield "  choice", _choice(check.choice, words)
    if (seen := smallest.output_attention) is not None:
        shares = f"{seen.clean.value:.1%} clean, {seen.circuit.value:.1%} in that set"
        yield "  output attention", f"{shares} ({seen.head}, {words.choosing})"
    if (agreement := check.gradients) is not None:
        scores = f"EAP {_digits(agreement.eap)}, EAP-IG {_digits(agreement.eap_ig)}"
        yield "  gradients agree", f"{scores} (rank correlation with exact effects, {agreement.paths} paths)"
    yield from map(_interchange, check.interchange)


def _interchange(one: Interchange) -> Pair:
    null = "too few other heads to compare" if one.null is None else f"other heads {one.null:.1%}"
    numbers = f"{one.accuracy.value:.1%} of answers follow ({null}, ceiling {one.ceiling.value:.1%})"
    return f"  {one.variable}", f"at {one.sites}: {numbers}"


def compare(circuits: Sequence[Circuit]) -> str:
    """Heads matched across checkpoints by role, the lead first, as layer.head."""
    checks = [circuit.evidence.check if circuit.evidence else None for circuit in circuits]
    roles = dict.fromkeys(role for circuit in circuits for role in TASKS[circuit.task].roles)
    lines = {_titled(role, circuits): [_heads(c.roles.get(role, ())) for c in circuits] for role in roles}
    traced = [circuit.evidence.traced_from if circuit.evidence else () for circuit in circuits]
    lines["heads that paths are traced from"] = list(map(_heads, traced))
    sizes = [str(check.smallest_circuit.heads) if check else "-" for check in checks]
    lines["heads of the smallest faithful set"] = sizes
    columns = [{**_faithfulness(check), **_moved(check)} if check else {} for check in checks]
    names = dict.fromkeys(name for column in columns for name in column)
    lines |= {name: [column.get(name, "-") for column in columns] for name in names}
    titles = ["", *(circuit.checkpoint.name for circuit in circuits)]
    return render(make_table(titles, ((name, *cells) for name, cells in lines.items()), titles[1:]))


def _titled(role: str, circuits: Sequence[Circuit]) -> str:
    """A role with the kinds of heads that are in it."""
    heads = (head for circuit in circuits for head in circuit.roles.get(role, ()))
    kinds = ", ".join(dict.fromkeys(parse_node(head).kind for head in heads))
    return f"{role} ({kinds})" if kinds else role


def _faithfulness(check: Check) -> dict[str, str]:
    kept = check.smallest_circuit.faithfulness
    groups = {f"accuracy it keeps, {name}": f"{share.value:.1%}" for name, share in kept.groups.items()}
    return {"accuracy it keeps": f"{kept.value:.1%}", **groups}


def _moved(check: Check) -> dict[str, str]:
    """Answers that follow an interchange, of those that could."""
    return {
        f"{one.variable} at {one.sites}": f"{one.accuracy.value:.0%} of {one.ceiling.value:.0%}"
        for one in check.interchange
    }


def _kept(kept: Kept) -> str:
    """A share of the accuracy with its interval, and what it is in each group of questions."""
    groups = ", ".join(f"{name} {share.value:.1%}" for name, share in kept.groups.items())
    return f"{kept.value:.1%} of the accuracy ({kept.low:.1%} to {kept.high:.1%})" + (f"; {groups}" if groups else "")


def _choice(choice: Choice, words: Words) -> str:
    """How often the right token and its rival are said, with the heads that paths are traced from and without them."""
    right, other = choice.right, choice.rival.ablated.value
    without = f"without {', '.join(choice.without)} {right.ablated.value:.1%}, {words.rival}'s {other:.1%}"
    return f"{right.clean.value:.1%} of {words.tokens} right; {without}"


def _mlps(kept: Mapping[str, Kept]) -> str:
    return ", ".join(f"{share.value:.0%} without {name}" for name, share in kept.items())


def _blocks(heads: Sequence[Sequence[str]]) -> str:
    """The kind of block that these heads are of."""
    return ", ".join(dict.fromkeys(name.rsplit("-", 1)[0] for names in heads for name in names)) or "no head"


def _heads(names: Sequence[str]) -> str:
    nodes = map(parse_node, names)
    return ", ".join(f"{node.layer}.{node.head}" for node in nodes) or "-"


def _percent(score: Estimate | None) -> str:
    return "" if score is None else f"{score.value:.0%}"


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
