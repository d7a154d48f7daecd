"""Heads given other numbers: by the roles that they play, or as they were trained.

The heads of a block can be put in any order without changing what the model computes. So heads can be given the numbers
that heads with the same role have elsewhere: in a paper, or in another checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from steer.anatomy.layout import Layout
from steer.anatomy.names import Names, Roles
from steer.anatomy.nodes import Node, parse_node
from steer.base.errors import CheckpointError, SteerError
from steer.experiments.renaming import rename_heads
from steer.models.checkpoint import Checkpoint, Transformer, weights_data, weights_hash
from steer.models.record import Record, Renumbered
from steer.results.circuit import Circuit

Order = Mapping[Node, tuple[int, ...]]  # block -> for each new number, the old number of its head


@dataclass(frozen=True)
class Numbering:
    """An order of the heads of each block, the roles that it was made for, and those that it does not fit."""

    order: Order
    given: Mapping[str, tuple[Node, Node]]  # role -> (old name of its head, new name)
    left: tuple[str, ...] = ()  # why other roles have no number

    @property
    def renamed(self) -> dict[Node, Node]:
        return {
            replace(b, head=old): replace(b, head=new)
            for b, heads in self.order.items()
            for new, old in enumerate(heads)
        }


def numbers_like(names: Names, wanted: Roles) -> Numbering:
    """Heads of a role get the numbers that `wanted` has for the role, the lead first. The others keep their order."""
    if not names.roles:
        raise SteerError(
            "no roles of this checkpoint are known, and heads are renumbered by role: `steer discover` looks for them"
        )
    given: dict[str, tuple[Node, Node]] = {}
    left: list[str] = []
    for role, pairs in _pairs(names, wanted, left):
        for number, (now, then) in enumerate(pairs):
            fault = _misfit(names.layout, now, then, dict(given.values()))
            if fault:
                left.append(f"{role}: {now} keeps its place: {fault}")
            else:
                given[role if number == 0 else f"{role} {number + 1}"] = (now, then)
    return Numbering(_order(names.layout, dict(given.values())), given, tuple(left))


def _pairs(names: Names, wanted: Roles, left: list[str]) -> Iterator[tuple[str, list[tuple[Node, Node]]]]:
    """Each wanted role with pairs (head here, wanted head). A role that no head plays is added to `left`."""
    for role, theirs in wanted.items():
        mine = names.roles.get(role, ())
        if not mine:
            left.append(f"{role}: no head plays it here")
        yield role, list(zip(mine, theirs, strict=False))


def _misfit(layout: Layout, now: Node, then: Node, given: Mapping[Node, Node]) -> str:
    """Why a head cannot get a number; empty if it can."""
    if block_of(now) != block_of(then):
        return f"{then} is in another block"
    if then not in layout.siblings(now):
        return f"there is no {then} in a block of {len(layout.siblings(now))} heads"
    if now in given:
        return f"it is already {given[now]}, for another role"
    return f"{then} has another role's head" if then in given.values() else ""


def _order(layout: Layout, given: Mapping[Node, Node]) -> Order:
    """The new order of each block in which a head moves."""
    order: dict[Node, tuple[int, ...]] = {}
    for block in dict.fromkeys(map(block_of, layout.heads)):
        heads = layout.siblings(replace(block, head=0))
        placed = {then: now for now, then in given.items() if block_of(now) == block}
        rest = iter(head for head in heads if head not in placed.values())
        order[block] = tuple((placed[h] if h in placed else next(rest)).head or 0 for h in heads)
    return {block: heads for block, heads in order.items() if heads != tuple(range(len(heads)))}


def numbers_as_trained(record: Record) -> Numbering:
    """The numbering that undoes every renumbering."""
    heads = record.renumbered.heads if record.renumbered else {}
    return Numbering({parse_node(block): _inverse(order) for block, order in heads.items()}, {})


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(number) for number in range(len(order)))


def block_of(head: Node) -> Node:
    return replace(head, head=None)


@dataclass(frozen=True)
class Renumbering:
    """A checkpoint in other numbers, ready to be written."""

    model: Transformer
    record: Record
    circuit: Circuit | None


def renumber(checkpoint: Checkpoint, numbering: Numbering, like: str, name: str) -> Renumbering:
    """A renumbered copy of a checkpoint. `like`: whose numbers they are, in words. `name`: of the new checkpoint."""
    model = checkpoint.reordered(numbering.order)
    sha256 = weights_hash(weights_data(model))
    record = checkpoint.record.model_copy(
        update={"weights_sha256": sha256, "renumbered": _composed(checkpoint.record, numbering.order, like)}
    )
    before = checkpoint.record.renumbered
    if before is not None and record.renumbered is None and sha256 != before.trained_sha256:
        raise CheckpointError(f"{checkpoint.name}: heads as trained do not give the weights that its record says")
    return Renumbering(model, record, _followed(checkpoint, numbering, record, name))


def _composed(record: Record, order: Order, like: str) -> Renumbered | None:
    """The record of all renumberings so far and this one; None if every head has its trained number again."""
    before = record.renumbered or Renumbered(like=like, heads={}, trained_sha256=record.weights_sha256)
    heads = dict(before.heads)
    for block, moved in order.items():
        trained = heads.get(str(block), tuple(range(len(moved))))
        heads[str(block)] = tuple(trained[old] for old in moved)
    heads = {block: order for block, order in heads.items() if order != tuple(range(len(order)))}
    return before.model_copy(update={"like": like, "heads": heads}) if heads else None


def _followed(checkpoint: Checkpoint, numbering: Numbering, record: Record, name: str) -> Circuit | None:
    """The circuit in the new numbers, for the new weights; it names the weights that were searched."""
    if checkpoint.circuit is None:
        return None
    before = checkpoint.circuit.checkpoint
    searched = before.searched or before.sha256
    sha256 = record.weights_sha256
    update = {"name": name, "sha256": sha256, "numbering": record.numbering}
    update["searched"] = "" if searched == sha256 else searched
    circuit = rename_heads(checkpoint.circuit, numbering.renamed)
    return circuit.model_copy(update={"checkpoint": before.model_copy(update=update)})
