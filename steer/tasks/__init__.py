"""Tasks by name. `task.py` says what a task is; each task has a folder of its own."""

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


def solve(example: Example | str, task: str = DEFAULT_TASK) -> Any:
    """The variables of the task's program on an example, or on a prompt, on the way to its answer."""
    given = TASKS[task]
    return given.solve(given.parse(example) if isinstance(example, str) else example)
