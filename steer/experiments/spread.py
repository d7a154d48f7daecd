"""Recipes run by a cluster: orders out, results in. Results are written and drawn here, as they come."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from steer.base.errors import SteerError
from steer.drawing.look import PLAIN, Look
from steer.experiments.cluster import Failure, Finished, Tell
from steer.experiments.many import Advance, Job, Outcome, attempted, failed, written
from steer.experiments.orders import Order, order_of
from steer.experiments.work import Begun, Work
from steer.recipe.load import Loaded, load_recipe
from steer.results.files import read_result, saved_result

Named = TypeVar("Named", bound=Hashable)


class Workers(Protocol):
    """A cluster, or processes of this machine."""

    def run(self, orders: Sequence[Work], tell: Tell) -> Iterator[tuple[Work, Finished]]: ...


def run_spread(paths: Sequence[Path], job: Job, advance: Advance, cluster: Workers) -> Iterator[tuple[Path, Outcome]]:
    """Each path with its outcome, as they finish. Every point of a sweep is an order of its own."""
    loaded: dict[Path, Loaded] = {}
    for path in paths:
        missed = attempted(path, partial(_load, path, job, loaded))
        if missed.faults:
            yield path, missed
    share = len(loaded) / len(paths)

    def tell(done: float, name: str) -> None:
        advance(1 - share + done * share, name)

    for path, finished in _finished(loaded, job, tell, cluster):
        name = loaded[path].name
        folder = job.out / (name if isinstance(finished, Failure) else f"{name}-{finished.content[:8]}")
        yield path, attempted(path, partial(outcome_of, path, loaded[path], finished, folder, job.look))


def _finished(
    loaded: Mapping[Path, Loaded], job: Job, tell: Advance, cluster: Workers
) -> Iterator[tuple[Path, Finished]]:
    """What came of each recipe; of a sweep, of all its points as one."""
    ordered = partial(order_of, device=job.device, dtype=job.dtype, memory=job.memory)
    known = {path: frozenset() if job.force else hashes(job.out.glob(f"{one.name}-*")) for path, one in loaded.items()}
    sweeps = {path: Sweep(one, [ordered(point) for _, point in one.points]) for path, one in loaded.items()}
    sweeps = {path: sweep for path, sweep in sweeps.items() if sweep.orders}
    yield from _looked_at(sweeps, known, cluster)
    orders: dict[tuple[Path, int], Order] = {
        (path, 0): ordered(one, known=known[path]) for path, one in loaded.items() if not one.points
    }
    orders |= {(path, number): order for path, sweep in sweeps.items() for number, order in enumerate(sweep.orders)}
    for (path, number), finished in run_orders(orders, cluster, tell):
        whole = sweeps[path].whole(number, finished) if path in sweeps else finished
        if whole is not None:
            yield path, whole


def _looked_at(
    sweeps: dict[Path, Sweep], known: Mapping[Path, frozenset[str]], cluster: Workers
) -> Iterator[tuple[Path, Finished]]:
    """The sweeps whose results are known, or that cannot be run; the others are left."""
    looks = {
        (path, number): replace(order, look=True)
        for path, sweep in sweeps.items() if known[path] for number, order in enumerate(sweep.orders)
    }  # fmt: skip
    for (path, number), finished in run_orders(looks, cluster, lambda done, name: None):
        whole = sweeps[path].whole(number, finished) if path in sweeps else None
        if isinstance(whole, Failure) or (whole is not None and whole.content in known[path]):
            del sweeps[path]
            yield path, whole
        elif whole is not None:
            sweeps[path].points.clear()


@dataclass
class Sweep:
    """A recipe's points as orders, and what came of them so far."""

    loaded: Loaded
    orders: Sequence[Order]
    points: dict[int, Begun] = field(default_factory=dict)
    failed: bool = False

    def whole(self, number: int, finished: Finished) -> Finished | None:
        """What came of the sweep, once all its points are there, or the first that fails."""
        if isinstance(finished, Failure):
            first, self.failed = not self.failed, True
            return finished if first else None
        self.points[number] = finished
        return self._together() if len(self.points) == len(self.orders) else None

    def _together(self) -> Begun:
        from steer.experiments.sweeping import sweep_hash, together

        points = [self.points[number] for number in range(len(self.orders))]
        content = sweep_hash(self.loaded, (point.content for point in points))
        results = [point.result for point in points if point.result is not None]
        made = together(self.loaded, results, content) if len(results) == len(points) else None
        return Begun(content, points[0].weights, result=made)


def _load(path: Path, job: Job, loaded: dict[Path, Loaded]) -> Outcome:
    loaded[path] = load_recipe(str(path), *job.changes)
    return Outcome(path.stem)


def hashes(folders: Iterable[Path]) -> frozenset[str]:
    """Of the results in these folders, as far as they can be read."""
    known: set[str] = set()
    for folder in folders:
        with suppress(SteerError):
            known.add(read_result(folder).provenance.hash)
    return frozenset(known)


def run_orders(orders: Mapping[Named, Work], cluster: Workers, advance: Advance) -> Iterator[tuple[Named, Finished]]:
    """Each order with what came of it, under its name. Progress is the mean over all."""
    if not orders:
        return
    names = {id(order): name for name, order in orders.items()}
    shares = dict.fromkeys(names, 0.0)

    def tell(order: Work, done: float) -> None:
        shares[id(order)] = done
        advance(sum(shares.values()) / len(shares), order.name)

    for order, finished in cluster.run(list(orders.values()), tell):
        tell(order, 1.0)
        yield names[id(order)], finished


def outcome_of(path: Path, loaded: Loaded, finished: Finished, folder: Path, look: Look = PLAIN) -> Outcome:
    """How a recipe ended, its result written and drawn."""
    if isinstance(finished, Failure):
        return failed(path, finished.faults, finished.traceback)
    result = finished.result or saved_result(folder, finished.content)
    if result is None:
        raise SteerError(f"{folder}: its result was changed while others were computed: run the recipe again")
    return written(loaded, result, folder, finished.result is None, look)
