"""One prompt or one component looked at: `ask`, `attend`, `attend_all`, `attribute`, `component` from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import SteerError, unknown
from steer.base.memory import parse_memory
from steer.base.shipped import DEFAULT
from steer.experiments.api import run
from steer.experiments.given import CheckpointLike, subject_of
from steer.models.families import names_of
from steer.results.details import Pattern
from steer.results.result import Result
from steer.results.rows import number

if TYPE_CHECKING:
    from steer.anatomy.names import Names
    from steer.engine.engine import Engine
    from steer.experiments.ask import SteeredAnswer
    from steer.experiments.component import Page
    from steer.models.subject import Subject
    from steer.tasks.task import Task

ATTRIBUTION = "paper/fig02a_logit_attribution"
NEEDED = "needed"
MOST, FEW = 2_000, 500  # episodes of the held-out split; for ablations, which take a pass for each component


def ask(
    prompt: str | None = None, *, episode: int | None = None, swap: tuple[str, str] | None = None,
    change: str | None = None, sites: Sequence[str] = (), checkpoint: CheckpointLike = DEFAULT,
    task: Path | str | None = None, device: str = "cpu", dtype: str = "float32", memory: str = "4G",
) -> SteeredAnswer:  # fmt: skip
    """Ask the model, predict what it would say if one variable were different, make it so, and compare.

    The prompt is typed, or a test episode by number, or the first one that fits.
    """
    from steer.experiments import ask as asking
    from steer.experiments.attend import choose_episode

    parse_memory(memory)  # what is wrong with it is said before any weights are read
    loaded = subject_of(checkpoint, device, dtype, task)
    variable = _variable(change, loaded.task)
    if episode is None and prompt is None:
        shown = loaded.task.examples(loaded.task.selection(count=1), loaded.data_seed, variable)[0]
    else:
        shown = choose_episode(loaded, episode, prompt)
    if swap is not None:
        loaded.task.check_exchange(shown, swap, variable)
    return asking.ask(loaded, shown, variable, [sites] if isinstance(sites, str) else sites, _engine(loaded, memory))


def attend(
    head: str, prompt: str | None = None, *, episode: int | None = None, checkpoint: CheckpointLike = DEFAULT,
    task: Path | str | None = None, device: str = "cpu", dtype: str = "float32", memory: str = "4G",
) -> Pattern:  # fmt: skip
    """What a head (or the lead of a role: `$output`) attends to on a test episode, or on a prompt of yours."""
    from steer.experiments import attend as attending

    node = _names(checkpoint).head(head)
    loaded = subject_of(checkpoint, device, dtype, task)
    shown = attending.choose_episode(loaded, episode, prompt)
    return attending.attention_pattern(loaded, node, shown, _engine(loaded, memory))


def attend_all(
    prompt: str | None = None, *, heads: str = "*", episode: int | None = None,
    checkpoint: CheckpointLike = DEFAULT, task: Path | str | None = None, device: str = "cpu",
    dtype: str = "float32", memory: str = "4G",
) -> list[Pattern]:  # fmt: skip
    """The same for every head that a pattern of names (`dec-cross-*.*`) fits, from one forward pass."""
    from steer.experiments import attend as attending

    names = _names(checkpoint)
    nodes = names.layout.heads if heads == "*" else names.heads(heads)
    loaded = subject_of(checkpoint, device, dtype, task)
    shown = attending.choose_episode(loaded, episode, prompt)
    return attending.attention_patterns(loaded, nodes, shown, _engine(loaded, memory))


def attribute(
    checkpoint: CheckpointLike = DEFAULT, *, episodes: int = MOST, task: Path | str | None = None,
    out: Path | str | None = None, device: str = "cpu", dtype: str = "float32", memory: str = "4G",
    force: bool = False, tell: Callable[[float], None] = lambda done: None,
) -> Result:  # fmt: skip
    """Who writes the answer: the share of the right token's logit that each decoder component has.

    `needed` says what is left of the answers without each: a component may write much and be needed for nothing.
    """
    return run(
        ATTRIBUTION, checkpoint, changes=_about(episodes, task), out=out, device=device, dtype=dtype, memory=memory,
        force=force, tell=tell,
    )  # fmt: skip


def needed(
    checkpoint: CheckpointLike = DEFAULT, *, episodes: int = FEW, task: Path | str | None = None,
    out: Path | str | None = None, device: str = "cpu", dtype: str = "float32", memory: str = "4G",
    force: bool = False, tell: Callable[[float], None] = lambda done: None,
) -> Result:  # fmt: skip
    """Who is needed for the answer: exact match with each decoder component alone ablated."""
    return run(
        NEEDED, checkpoint, changes=_about(episodes, task), out=out, device=device, dtype=dtype, memory=memory,
        force=force, tell=tell,
    )  # fmt: skip


def _about(episodes: int, task: Path | str | None) -> dict[str, int | str]:
    brought = {} if task is None else {"task": str(Path(task).resolve())}
    return {"episodes.count": checked_count(episodes), **brought}


def both_columns(writes: Result, left: Result) -> list[tuple[str, ...]]:
    """For each component what it writes into the right logit, and what is left of the answers without it."""
    without = {row.condition.removeprefix("without "): row for row in left.rows if row.site and row.position is None}
    written = [row for row in writes.rows if row.measure == "logit-attribution" and row.position is None]
    lines: list[tuple[str, ...]] = []
    for row in sorted(written, key=lambda one: -one.value):
        other = without.get(row.of)
        kept = ("", "") if other is None else (number(other.value), f"{number(other.low)} to {number(other.high)}")
        lines.append((row.of, f"{row.value:.3f}", f"{row.low:.3f} to {row.high:.3f}", *kept))
    return lines


def component(
    head: str, checkpoint: CheckpointLike = DEFAULT, *, episodes: int = MOST, task: Path | str | None = None,
    device: str = "cpu", dtype: str = "float32", memory: str = "4G",
) -> Page:  # fmt: skip
    """One head's or MLP's page: what it writes, what it looks at, what it would copy."""
    from steer.experiments import component as pages

    nodes = _names(checkpoint).nodes(head)
    if len(nodes) != 1:
        raise SteerError(f"--head: {head!r} stands for {len(nodes)} components; one is wanted")
    loaded = subject_of(checkpoint, device, dtype, task)
    wanted = loaded.task.selection(count=checked_count(episodes))
    examples = loaded.task.examples(wanted, loaded.data_seed)
    return pages.component_page(loaded, nodes[0], examples, engine=_engine(loaded, memory))


def checked_count(episodes: int) -> int:
    if not isinstance(episodes, int) or not 1 <= episodes <= MOST:
        raise SteerError(f"--episodes: from 1 to {MOST:,}, not {episodes!r:.40}")
    return episodes


def _engine(subject: Subject, memory: str) -> Engine:
    from steer.engine.engine import Engine

    return Engine.within(subject.model, parse_memory(memory))


def _names(checkpoint: CheckpointLike) -> Names:
    """Read off the files if it is named: a wrong head is answered before the weights are read."""
    return names_of(str(checkpoint)) if isinstance(checkpoint, str | Path) else subject_of(checkpoint).names


def _variable(given: str | None, task: Task) -> str:
    """The variable to change: the one that is named, else the task's usual one."""
    known = list(task.handles) or list(task.variables)
    if not known:
        raise SteerError(f"the task {task.name!r} has no variables to change")
    usual = task.exchange.variable if task.exchange else known[0]
    if given is not None and given not in known:
        raise SteerError(f"--change: {unknown('variable', str(given), known)}")
    return given or usual
