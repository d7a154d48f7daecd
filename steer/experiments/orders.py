"""What a worker is asked to do, and how it does it. Nothing here knows who sends the work.

A recipe travels by value. A worker keeps a model and the experiments on it until others need the memory, so a
checkpoint is loaded once. Names are relative to the folder that the command was given in.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from steer.base.errors import Fault, SteerError
from steer.base.files import is_there, write_atomically
from steer.base.log import BUG, LOG, follow_debugging, is_debugging, traceback_of
from steer.base.version import __version__
from steer.base.yaml import Document
from steer.experiments.work import AbsentError, Begun, Parcel, PoisonedError, Work
from steer.plan.cut import Part, Shard
from steer.recipe.load import Loaded
from steer.recipe.tasked import schema_for
from steer.results.result import Result

if TYPE_CHECKING:
    from steer.engine.engine import Engine
    from steer.experiments.experiment import Averages, Experiment, Gathering
    from steer.models.subject import Subject

Made = TypeVar("Made")
MOST_EXPERIMENTS = 4  # that a worker keeps ready


@dataclass(frozen=True, kw_only=True)
class Order(Work):
    """One recipe, as it travels."""

    document: Document
    changes: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()  # hashes of saved results: they are not computed again
    look: bool = False  # only for the experiment's hash
    whole: bool = False  # in one part, however large

    @property
    def checkpoint(self) -> str:
        return str(self.document.data["checkpoint"])

    @property
    def key(self) -> str:
        words = (self.document.name, self.document.data, self.changes, self.device, self.dtype, self.memory, self.home)
        return sha256(repr(words).encode()).hexdigest()

    def begin(self, parcel: Parcel | None) -> Begun:
        return _begin(self, parcel)


def order_of(loaded: Loaded, checkpoint: str = "", **how: Any) -> Order:
    """A loaded recipe as it travels, or one point of a sweep: with the keys that were set in it. `checkpoint`: where
    its model is, if the recipe only has its name."""
    assert not loaded.points, "every point of a sweep is an order of its own"
    said = loaded.recipe.model_dump(mode="json", exclude_unset=True, exclude={"task"})
    own = {key: value for key, value in loaded.document.data.items() if key == "task"}
    data = own | said | {"kind": loaded.recipe.kind, "checkpoint": checkpoint or loaded.recipe.checkpoint}
    order = Order(name=loaded.name, document=replace(loaded.document, data=data), changes=loaded.changes, **how)
    return replace(order, in_folder=order.model_folder is not None)


# On a worker.

BUSY = RLock()  # one experiment at a time in a process: torch has its own threads
SUBJECTS: OrderedDict[tuple[Any, ...], tuple[Subject, Engine]] = OrderedDict()
EXPERIMENTS: OrderedDict[tuple[str, str], Experiment] = OrderedDict()  # by order and weights
UNPACKED: dict[str, tempfile.TemporaryDirectory[str]] = {}  # by the parcel's content; gone when the process ends


def begin(work: Work, parcel: Parcel | None = None) -> Begun:
    """Look at an experiment, and run it at once if it is a single part; or do whatever else is asked for."""
    return guarded(work, lambda: work.begin(parcel))


def average(order: Order, begun: Begun, shards: tuple[Shard, Shard], parcel: Parcel | None = None) -> Averages:
    return guarded(order, lambda: ready(order, parcel, begun.weights).average(*shards))


def merge_averages(averages: Sequence[Averages]) -> Averages:
    from steer.experiments.experiment import merged

    return merged(averages)


def gather(
    order: Order, begun: Begun, part: Part, averages: Averages | None, parcel: Parcel | None = None
) -> Gathering:
    return guarded(order, lambda: ready(order, parcel, begun.weights).gather(part, averages))


def finish(
    order: Order, begun: Begun, gatherings: Sequence[Gathering], seconds: float, parcel: Parcel | None = None
) -> Result:
    """The result from what all parts gave. `seconds`: that have gone by since the experiment began."""
    return guarded(order, lambda: _finish(order, begun, gatherings, seconds, parcel))


def guarded(order: Work, work: Callable[[], Made]) -> Made:
    """The work with what can go wrong made fit to travel."""
    with BUSY, at_home(order.home):
        follow_debugging()
        try:
            if order.version != __version__:
                raise SteerError(f"the worker on {platform.node()} runs steer {__version__}, not {order.version}")
            return work()
        except AbsentError:
            raise
        except SteerError as error:
            raise PoisonedError(error.faults, traceback_of(error) if is_debugging() else "") from None
        except Exception as error:
            fault = Fault("", (), f"{type(error).__name__}: {error} ({BUG})")
            raise PoisonedError((fault,), traceback_of(error)) from None


@contextmanager
def at_home(home: str) -> Iterator[None]:
    """In the folder that the command was given in, where the worker has such a folder."""
    before = Path.cwd()
    if is_there(home):
        os.chdir(home)
    try:
        yield
    finally:
        os.chdir(before)


def _begin(order: Order, parcel: Parcel | None) -> Begun:
    from steer.experiments.one import finished
    from steer.experiments.sweeping import run_question

    started = time.perf_counter()
    loaded, subject, engine = prepared(order, parcel)
    content, weights = content_of(order, loaded, subject), subject.weights.identity
    if order.look or content in order.known:
        return Begun(content, weights)
    if loaded.recipe.twins or loaded.recipe.learning:  # many experiments, or one that learns first
        return Begun(
            content, weights, result=_named(order, run_question(loaded, subject, engine=engine, content=content))
        )
    experiment = ready(order, parcel, weights)
    cut = experiment.cut()
    if len(cut.parts) > 1 and not order.whole:
        return Begun(content, weights, cut)
    experiment.take()
    experiment.run_whole()
    return Begun(content, weights, result=_named(order, finished(experiment, started, content)))


def _finish(
    order: Order, begun: Begun, gatherings: Sequence[Gathering], seconds: float, parcel: Parcel | None
) -> Result:
    from steer.experiments.one import finished

    started = time.perf_counter() - seconds
    experiment = ready(order, parcel, begun.weights)
    experiment.merge(gatherings)
    result = _named(order, finished(experiment, started, begun.content))
    experiment.take()
    return result


def _named(order: Order, result: Result) -> Result:
    """With the checkpoint's name as it was given, wherever its files were unpacked."""
    weights = result.provenance.checkpoint
    if weights.name not in (Path(order.checkpoint).name, order.checkpoint):
        name = order.checkpoint.rpartition(":")[2]
        result.provenance = replace(result.provenance, checkpoint=replace(weights, name=name))
    return result


def content_of(order: Order, loaded: Loaded, subject: Subject) -> str:
    from steer.experiments.sweeping import question_hash

    return question_hash(loaded, subject, order.memory)


def ready(order: Order, parcel: Parcel | None, weights: str) -> Experiment:
    """The experiment, made once; `weights`: those that it must be on."""
    from steer.experiments.experiment import Experiment

    key = order.key, weights
    if key not in EXPERIMENTS:
        loaded, subject, engine = prepared(order, parcel)
        if subject.weights.identity != weights:
            raise SteerError(f"{order.checkpoint}: on {platform.node()} it has other weights than on another worker")
        EXPERIMENTS[key] = Experiment(loaded, subject, engine)
    EXPERIMENTS.move_to_end(key)
    while len(EXPERIMENTS) > MOST_EXPERIMENTS:
        EXPERIMENTS.popitem(last=False)
    return EXPERIMENTS[key]


def prepared(order: Order, parcel: Parcel | None) -> tuple[Loaded, Subject, Engine]:
    """The recipe and its model."""
    local = order if parcel is None else _with_parcel(order, parcel)
    loaded = Loaded(local.name, schema_for(local.document).check(local.document), local.document, local.changes)
    return loaded, *model_for(local, loaded)


def _with_parcel(order: Order, parcel: Parcel) -> Order:
    data = dict(order.document.data) | {"checkpoint": unpacked(order, parcel)}
    return replace(order, document=replace(order.document, data=data), in_folder=False)


def model_for(order: Order, loaded: Loaded) -> tuple[Subject, Engine]:
    """A model ready to run; the same one for all recipes on it, until its files change or others need the memory."""
    from steer.engine.engine import Engine
    from steer.experiments.given import subject_for

    check_there(order)
    key = (order.checkpoint, order.home, order.device, order.dtype, order.memory, *stamps(order.model_folder))
    if key not in SUBJECTS:
        LOG.debug("%s is loaded by process %d", order.checkpoint, os.getpid())
        subject = subject_for(loaded, None, order.device, order.dtype)
        SUBJECTS[key] = subject, Engine(subject.model, order.memory // 4, order.memory)
        while len(SUBJECTS) > 1 and sum(_size(one) for one, _ in SUBJECTS.values()) > order.memory:
            SUBJECTS.popitem(last=False)
    SUBJECTS.move_to_end(key)
    return SUBJECTS[key]


def check_there(work: Work) -> None:
    if work.in_folder and work.model_folder is None:
        raise AbsentError(work.checkpoint)


def stamps(folder: Path | None) -> list[tuple[str, int, int]]:
    files = sorted(folder.iterdir()) if folder is not None else []
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]


def _size(subject: Subject) -> int:
    return sum(weight.nbytes for weight in subject.model.module.parameters())


def unpacked(work: Work, parcel: Parcel) -> str:
    """The model's name with its folder as this process has it, written when it first comes."""
    content = sha256(b"".join(name.encode() + sha256(data).digest() for name, data in parcel.items())).hexdigest()
    family, colon, place = work.checkpoint.rpartition(":")
    if content not in UNPACKED:
        UNPACKED[content] = tempfile.TemporaryDirectory(prefix="steer-")
    folder = Path(UNPACKED[content].name) / Path(place).name
    for name, data in parcel.items():
        if not (folder / name).is_file():
            write_atomically(folder / name, data)
    return f"{family}{colon}{folder}"
