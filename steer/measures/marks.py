"""Where a head should look on an example, as entries of its pattern: for pictures that mark the right tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steer.anatomy.layout import Layout
from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.measures.measure import is_crossing
from steer.tasks.task import Task

if TYPE_CHECKING:
    from steer.models.protocol import Batch

Entries = tuple[tuple[int, int], ...]


def right_entries(names: Names, task: Task, head: Node, example: Any, batch: Batch, row: int) -> Entries:
    """(query, key) by the role that a head plays; for one without that looks at the prompt, by the output role."""
    role, layout = _role(names, task, head), names.layout
    if role is None:
        return ()
    queries, keys = (int(batch.real[end][row].sum()) for end in _ends(layout, head))
    entries = []
    for gaze in task.gaze(example, role):
        (query,) = batch.columns(gaze.looks[0], [row], [gaze.looks[1]])
        for sequence, place in sorted(gaze.right):
            (key,) = batch.columns(sequence, [row], [place])
            if query < queries and key < keys:
                entries.append((query, key))
    return tuple(entries)


def _ends(layout: Layout, head: Node) -> tuple[str, str]:
    return layout.sequence(Site(head, "q")), layout.looks_at(head)


def _role(names: Names, task: Task, head: Node) -> str | None:
    played = [role for role in names.plays(head) if role in task.roles]
    if played:
        return played[0]
    return task.output_role if task.output_role in task.roles and is_crossing(names.layout, head) else None
