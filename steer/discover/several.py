"""The circuits of several checkpoints: one after another, or on a cluster a checkpoint for each worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import SteerError
from steer.base.memory import MEMORY
from steer.discover import keep
from steer.discover.keep import Discovery
from steer.discover.search import Tell
from steer.experiments.many import interrupted
from steer.results.circuit import Circuit
from steer.results.evidence import SearchSettings

if TYPE_CHECKING:
    from steer.discover.sharing import Shared
    from steer.experiments.cluster import Cluster

Bar = Callable[[str], AbstractContextManager[Tell]]  # progress under a title


@dataclass(frozen=True)
class Searching:
    """What is searched, the same for all checkpoints."""

    settings: SearchSettings
    task: Path | None = None
    device: str = "cpu"
    dtype: str = "float32"
    memory: int = MEMORY
    force: bool = False

    def find(
        self, name: str, folder: Path, tell: Tell, cluster: Cluster | None = None, made: Circuit | None = None
    ) -> Discovery:
        helpers = self.shared(name, cluster) if cluster and not made else None
        if self.task is None:
            return keep.find_circuit(name, folder, self.settings, self.force, tell, self.device, made, helpers)
        return keep.find_on_prompts(
            name, self.task, folder, self.settings, self.force, tell, self.device, self.dtype, self.memory, made,
            helpers,
        )  # fmt: skip

    def is_known(self, name: str, folder: Path) -> bool:
        if self.force:
            return False
        if self.task is None:
            return keep.is_known(name, folder, self.settings, self.device)
        return keep.is_known_on_prompts(name, self.task, folder, self.settings, self.device, self.dtype)

    def shared(self, name: str, cluster: Cluster) -> Shared:
        from steer.discover.sharing import Shared, search_of

        return Shared(cluster, search_of(name, self.settings, self.task, self.device, self.dtype, self.memory))


def find_all(
    folders: Mapping[str, Path], work: Searching, bar: Bar, cluster: Cluster | None = None
) -> dict[str, Discovery]:
    """Every checkpoint's circuit, in its folder."""
    discoveries: dict[str, Discovery] = {}
    try:
        for name, discovery in _ways(folders, work, bar, cluster):
            discoveries[name] = discovery
    except KeyboardInterrupt as error:
        raise interrupted(len(discoveries), len(folders)) from error
    return {name: discoveries[name] for name in folders}


def _ways(
    folders: Mapping[str, Path], work: Searching, bar: Bar, cluster: Cluster | None
) -> Iterator[tuple[str, Discovery]]:
    many = cluster is not None and len(folders) > 1
    unknown = [name for name, folder in folders.items() if not work.is_known(name, folder)] if many else []
    spread = unknown if len(unknown) > 1 else []
    for name in (name for name in folders if name not in spread):
        with bar(f"discovering {name}") as tell:
            yield name, work.find(name, folders[name], tell, cluster)
    if cluster is not None and spread:
        with bar(f"discovering {len(spread)} circuits") as tell:
            yield from _spread({name: folders[name] for name in spread}, work, tell, cluster)


def _spread(
    folders: Mapping[str, Path], work: Searching, tell: Tell, cluster: Cluster
) -> Iterator[tuple[str, Discovery]]:
    """A whole search for each worker. One that fails stops no other."""
    from steer.discover.sharing import made_by
    from steer.experiments.spread import run_orders

    searches = {name: work.shared(name, cluster).search for name in folders}
    faults: list[str] = []
    for name, came in run_orders(searches, cluster, tell):
        try:
            yield name, work.find(name, folders[name], lambda done, text: None, made=made_by(came))
        except SteerError as error:
            faults += [fault if name in fault else f"{name}: {fault}" for fault in error.faults]
    if faults:
        raise SteerError(*faults)
