"""Every shipped recipe on every shipped checkpoint, as rows on 100 episodes in float64: recorded, or compared.

    python tests/pinned.py record FILE [CHECKPOINT]...
    python tests/pinned.py compare FILE [CHECKPOINT]...
    STEER_PINNED=FOLDER python tests/pinned.py compare FILE     # on the models and recipes of another commit's folder

A change that should leave all numbers alone is held to a file that was recorded before it. Recipes that a checkpoint
cannot run (a role that no head plays) are recorded with their faults. `pinned.json.gz` was recorded before the code was
moved into rooms (commit 6433589). Heads of the shipped models have other numbers since, circuits were searched again,
`seed3` is called `shortcut`, and `swap_index` enters all heads that broadcast: it is compared on what that commit has:

    git archive 6433589 --prefix=before/ | tar x -C /tmp
    (cd /tmp && steer migrate before/steer/checkpoints/*/circuit.yaml)
    STEER_PINNED=/tmp/before python tests/pinned.py compare tests/pinned.json.gz

What R² gives by chance is left out, because it is counted in another way since. At that time the four `steer_*` recipes
were refused on `deep` and `seed3`, by mistake: a measure of a role that nobody plays was called a fault. They have rows
now.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from steer.base.errors import SteerError
from steer.base.shipped import checkpoint_names, recipe_names
from steer.engine.engine import Engine
from steer.experiments.one import run_experiment
from steer.models.checkpoint import load_checkpoint
from steer.recipe.load import load_recipe
from steer.results.rows import Row

EPISODES, TOLERANCE = 100, 1e-9
NUMBERS = ("value", "low", "high")
OLD = {"head": "of", "episodes": "examples"}  # a field of the file -> a row's
LABELS = ("condition", "measure", "head", "against", "decoding", "position", "tokens", "counted", "episodes", "warning")
Found = dict[str, list[dict[str, Any]] | str]


def rows_of(
    checkpoint: str, recipes: Iterable[str], folder: Path | None
) -> Iterator[tuple[str, list[dict[str, Any]] | str]]:
    place = str(folder / "steer" / "checkpoints" / checkpoint) if folder else checkpoint
    loaded = load_checkpoint(place, dtype=torch.float64)
    engine = Engine(loaded.model)
    for name in recipes:
        path = str(folder / "recipes" / f"{name}.yaml") if folder else name
        try:
            recipe = load_recipe(path, f"checkpoint={place}", f"episodes.count={EPISODES}")
            yield f"{checkpoint}/{name}", [_plain(row) for row in run_experiment(recipe, loaded, engine=engine).rows]
        except SteerError as error:
            yield f"{checkpoint}/{name}", "; ".join(fault.rpartition(": ")[2] for fault in error.faults)


def _plain(row: Row) -> dict[str, Any]:
    """A row as files have it that were recorded from rows of format 1."""
    fields = {key: getattr(row, OLD.get(key, key)) for key in (*LABELS, *NUMBERS)}
    place = "all" if row.position is None else str(row.position)
    left_out = [key for key in ("tokens", "warning") if not fields[key] and fields[key] != 0]
    return {key: value for key, value in (fields | {"position": place}).items() if key not in left_out}


def differences(expected: Found, found: Found) -> Iterator[str]:
    for name, rows in found.items():
        before = expected[name]
        if isinstance(rows, str) or isinstance(before, str):
            if rows != before:
                yield f"{name}: {before!s:.200} became {rows!s:.200}"
            continue
        if len(rows) != len(before):
            yield f"{name}: {len(before)} rows became {len(rows)}"
        for one, two in zip(before, rows, strict=False):
            yield from (f"{name}: {one} became {two}" for _ in [0] if not same(one, two))


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    labels = all(one.get(key) == two.get(key) for key in LABELS)
    return labels and all(math.isclose(one[k], two[k], rel_tol=0, abs_tol=TOLERANCE) for k in NUMBERS if k in one)


def names_in(found: Found) -> dict[str, list[str]]:
    """Recipes by checkpoint, as they were recorded."""
    names: dict[str, list[str]] = {}
    for name in found:
        checkpoint, _, recipe = name.partition("/")
        names.setdefault(checkpoint, []).append(recipe)
    return names


def compare(file: Path, checkpoints: tuple[str, ...], folder: Path | None) -> int:
    expected: Found = json.loads(gzip.decompress(file.read_bytes()))
    names, wrong, count = names_in(expected), 0, 0
    for checkpoint in checkpoints or names:
        for name, rows in rows_of(checkpoint, names[checkpoint], folder):
            told = list(differences(expected, {name: rows}))
            wrong, count = wrong + len(told), count + 1
            print(f"{name}: {'the same' if not told else told[0]}", flush=True)
    print(f"{count} results, {wrong} differences")
    return int(wrong > 0)


def record(file: Path, checkpoints: tuple[str, ...]) -> int:
    found: Found = {}
    for checkpoint in checkpoints or checkpoint_names():
        found |= dict(rows_of(checkpoint, recipe_names(), None))
        print(f"{checkpoint}: {len(found)} results so far", flush=True)
    file.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
    return 0


def main(verb: str, file: str, *checkpoints: str) -> int:
    folder = Path(os.environ["STEER_PINNED"]) if "STEER_PINNED" in os.environ else None
    return compare(Path(file), checkpoints, folder) if verb == "compare" else record(Path(file), checkpoints)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
