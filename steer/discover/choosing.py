"""Questions in which something is chosen: with nothing to choose, a head that always does the same is right."""

from __future__ import annotations

from collections.abc import Sequence

from steer.tasks.task import Example, Task


def choices(task: Task, examples: Sequence[Example]) -> list[Example]:
    """Those in which something has to be chosen; all of them, if there is none."""
    return [example for example in examples if task.chooses(example)] or list(examples)
