"""`steer discover`: search and check the circuit of a checkpoint, automatically."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_checkpoint
from steer.commands.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    MemoryOption,
    OnOption,
    OutOption,
    QuietOption,
    WorkersOption,
)
from steer.commands.subjects import TaskOption

if TYPE_CHECKING:
    from steer.discover.keep import Discovery


def discover(
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            "-c",
            help="By name or folder; give it again for several.",
            autocompletion=complete_checkpoint,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All shipped checkpoints that do the task.")] = False,
    episodes: Annotated[int, typer.Option(min=20, max=500, help="Episodes of each kind to search on.")] = 250,
    threshold: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Smallest effect of a path, as a share of the scale.")
    ] = 0.1,
    task: TaskOption = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    memory: MemoryOption = "4G",
    workers: WorkersOption = None,
    on: OnOption = None,
    force: Annotated[bool, typer.Option("--force", help="Search again, even if the circuit is saved.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the circuit: output heads, what feeds them, roles, redundancy; then check it. Writes circuit.yaml."""
    from json import dumps

    from steer.base.errors import SteerError
    from steer.base.memory import parse_memory
    from steer.commands.pictures import warn
    from steer.commands.progress import bar, spoken
    from steer.discover.keep import capable
    from steer.discover.several import Searching, find_all
    from steer.experiments.cluster import opened
    from steer.results.evidence import SearchSettings

    if task is not None and everything:
        raise SteerError("--task puts prompts to the checkpoints that -c names: leave --all out")
    if task is None and (dtype, memory) != ("float32", "4G"):
        raise SteerError("--dtype and --memory are for searches on prompts: give --task")
    folders = _folders(checkpoint or (capable() if everything else [DEFAULT]), out or Path("results"), task, dtype)
    settings = SearchSettings(episodes=episodes, threshold=threshold)
    work = Searching(settings, task, device, dtype, parse_memory(memory), force)
    with opened(workers, on, spoken(quiet)) as cluster:
        discoveries = find_all(folders, work, lambda title: bar(title, 1.0, quiet), cluster)
    warn(*(one.undrawn for one in discoveries.values()))
    if json:
        plain = [one.circuit.model_dump(mode="json") for one in discoveries.values()]
        typer.echo(dumps(plain[0] if len(plain) == 1 else plain, indent=1))
    else:
        _print(discoveries, folders)


def _folders(checkpoints: list[str], within: Path, task: Path | None, dtype: str) -> dict[str, Path]:
    """Where each one's circuit is written; a checkpoint that is not there is named before any search begins."""
    from steer.base.errors import SteerError
    from steer.discover.keep import asked_of, check_trained
    from steer.experiments.folders import results_folder

    for name in checkpoints if task is None else ():
        check_trained(name)
    more = asked_of(task, dtype)
    folders = {name: results_folder("discover", name, *more, within=within) for name in checkpoints}
    if len(set(folders.values())) < len(folders):
        raise SteerError(
            "two of these checkpoints have the same name, and so the same results folder: give them one by one"
        )
    return folders


def _print(discoveries: dict[str, Discovery], folders: dict[str, Path]) -> None:
    from steer.discover.table import compare, describe
    from steer.results.circuit import CIRCUIT

    circuits = [one.circuit for one in discoveries.values()]
    typer.echo("\n\n".join(describe(circuit, paths=len(circuits) == 1) for circuit in circuits))
    if len(circuits) > 1:
        typer.echo("\n" + compare(circuits))
    for name, one in discoveries.items():
        state = " (already known; --force searches again)" if one.known else ""
        state += "\nrecipes use the circuit in the checkpoint's folder, which has other roles" if one.differs else ""
        typer.echo(f"\n{name}: {folders[name] / CIRCUIT}{state}")
        if one.circuit.members and not one.undrawn:
            typer.echo(f"picture: {folders[name] / 'circuit.png'}")
