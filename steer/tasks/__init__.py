"""Tasks by name. What a task is says `task`; each has a room of its own."""

from __future__ import annotations

from typing import Any

from steer.base.registry import Registry
from steer.base.shipped import DEFAULT_TASK
from steer.tasks.task import Example, Task

TASKS: Registry[Task] = Registry(
    "steer.tasks",
    {
        "compositional": "steer.tasks.compositional.task:TASK",
        "authors": "steer.tasks.authors.task:TASK",
        "prompts": "steer.tasks.prompts.task:TASK",
    },
)


def solve(example: Example, task: str = DEFAULT_TASK) -> Any:
    """What the task's program finds on the way to the answer of an example."""
    return TASKS[task].solve(example)
