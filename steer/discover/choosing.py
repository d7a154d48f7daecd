"""Examples whose answer depends on a choice. Without one, a head that always does the same is right."""

from __future__ import annotations

from collections.abc import Sequence

from steer.tasks.task import Example, Task


def choices(task: Task, examples: Sequence[Example]) -> list[Example]:
    """The examples whose answer depends on a choice; all examples, if none does."""
    return [example for example in examples if task.chooses(example)] or list(examples)
