"""What each example gave, kept beside the rows: with it two results of the same examples can be compared in pairs.

On disk it is `examples.safetensors`: for every measure and condition the values and how often each counts, example by
output position, and in the header what they are of. No torch: it is read and written as numpy arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from steer.base.errors import SteerError
from steer.base.files import is_there, write_atomically
from steer.results.rows import Labels, Row
from steer.results.tally import Floats, Tally

SAMPLES = "examples.safetensors"


@dataclass(frozen=True)
class Samples:
    """`examples`: a fingerprint of the examples, in their order."""

    examples: str
    values: Mapping[Labels, Floats]  # N P: summed over what is counted
    counts: Mapping[Labels, Floats]  # N P

    def of(self, row: Row) -> tuple[Floats, Floats] | None:
        """The sums and the counts of each example that a row is the ratio of: N, N. None if they were not kept."""
        labels = Labels(**{field.name: getattr(row, field.name) for field in fields(Labels)})
        if labels not in self.values:
            return None
        values, counts = self.values[labels], self.counts[labels]
        if row.position is None:
            return values.sum(1), counts.sum(1)
        return (values[:, row.position - 1], counts[:, row.position - 1]) if row.position <= values.shape[1] else None


def fingerprint(examples: Iterable[Any]) -> str:
    """Of prompts and answers."""
    text = "\n".join(f"{example}\t{' '.join(example.answer)}" for example in examples)
    return sha256(text.encode()).hexdigest()


def sampled(examples: Iterable[Any], tallies: Iterable[Tally]) -> Samples:
    kept = {tally.labels: tally for tally in tallies}
    return Samples(
        fingerprint(examples),
        {labels: tally.values for labels, tally in kept.items()},
        {labels: tally.counts for labels, tally in kept.items()},
    )


def write_samples(samples: Samples | None, path: Path) -> None:
    """Write them; without any, no file is left."""
    from safetensors.numpy import save

    if samples is None:
        path.unlink(missing_ok=True)
        return
    arrays = {}
    for number, labels in enumerate(samples.values):
        arrays[f"{number}.values"] = np.ascontiguousarray(samples.values[labels], dtype=np.float32)
        arrays[f"{number}.counts"] = np.ascontiguousarray(samples.counts[labels], dtype=np.float32)
    said = {"examples": samples.examples, "of": [asdict(labels) for labels in samples.values]}
    write_atomically(path, save(arrays, {"steer": json.dumps(said)}))


def read_samples(folder: Path) -> Samples | None:
    """What a result's folder holds; None where it was not kept (by an earlier version)."""
    from safetensors import SafetensorError, safe_open

    path = folder / SAMPLES
    if not is_there(path):
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            said = json.loads(file.metadata()["steer"])
            labels = [Labels(**one) for one in said["of"]]
            values, counts = (
                {one: file.get_tensor(f"{n}.{what}").astype(np.float64) for n, one in enumerate(labels)}
                for what in ("values", "counts")
            )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise SteerError(f"{path}: is not as `steer run` writes it ({error})") from error
    return Samples(str(said["examples"]), values, counts)
