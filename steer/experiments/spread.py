"""Recipes run by a cluster: orders out, results in. Results are written and drawn here, as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from steer.base.errors import SteerError
from steer.drawing.look import PLAIN, Look
from steer.experiments.cluster import Cluster, Failure, Finished
from steer.experiments.many import Advance, Job, Outcome, attempted, failed, written
from steer.experiments.orders import Order, order_of
from steer.recipe.load import Loaded, load_recipe
from steer.results.files import read_result, saved_result

Named = TypeVar("Named", str, Path)


def run_spread(paths: Sequence[Path], job: Job, advance: Advance, cluster: Cluster) -> Iterator[tuple[Path, Outcome]]:
    """Each path with its outcome, as they finish."""
    loaded: dict[Path, Loaded] = {}
    for path in paths:
        missed = attempted(path, partial(_load, path, job, loaded))
        if missed.faults:
            yield path, missed
    how: dict[str, Any] = {"device": job.device, "dtype": job.dtype, "memory": job.memory}
    known = {path: [] if job.force else list(job.out.glob(f"{one.name}-*")) for path, one in loaded.items()}
    orders = {path: order_of(one, **how, known=hashes(known[path])) for path, one in loaded.items()}
    share = len(orders) / len(paths)
    for path, found in run_orders(orders, cluster, lambda done, name: advance(1 - share + done * share, name)):
        name = loaded[path].name
        folder = job.out / (name if isinstance(found, Failure) else f"{name}-{found.content[:8]}")
        yield path, attempted(path, partial(outcome_of, path, loaded[path], found, folder, job.look))


def _load(path: Path, job: Job, loaded: dict[Path, Loaded]) -> Outcome:
    loaded[path] = load_recipe(str(path), *job.changes)
    return Outcome(path.stem)


def hashes(folders: Iterable[Path]) -> frozenset[str]:
    """Of the results in these folders, as far as they can be read."""
    found: set[str] = set()
    for folder in folders:
        with suppress(SteerError):
            found.add(read_result(folder).provenance.hash)
    return frozenset(found)


def run_orders(orders: Mapping[Named, Order], cluster: Cluster, advance: Advance) -> Iterator[tuple[Named, Finished]]:
    """Each order with what came of it, under its name. Progress is the mean over all."""
    names = {order.key: name for name, order in orders.items()}
    shares = dict.fromkeys(names, 0.0)

    def tell(order: Order, done: float) -> None:
        shares[order.key] = done
        advance(sum(shares.values()) / len(shares), order.name)

    for order, found in cluster.run(list(orders.values()), tell):
        tell(order, 1.0)
        yield names[order.key], found


def outcome_of(path: Path, loaded: Loaded, found: Finished, folder: Path, look: Look = PLAIN) -> Outcome:
    """How a recipe ended, its result written and drawn."""
    if isinstance(found, Failure):
        return failed(path, found.faults, found.traceback)
    result = found.result or saved_result(folder, found.content)
    if result is None:
        raise SteerError(f"{folder}: its result was changed while others were computed: run the recipe again")
    return written(loaded, result, folder, found.result is None, look)
