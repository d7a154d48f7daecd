"""The field's tools on one GPT-2, side by side: TransformerLens, nnsight by hand, pyvene. Numbers first, then times.

    python -m venv peers && peers/bin/pip install -c constraints.txt -r benchmarks/peers.txt '.[hf]'
    peers/bin/python benchmarks/peers.py                # some minutes on a free core
    peers/bin/python benchmarks/peers.py --rounds 5

Everything that is compared is asked for as a recipe, through `steer.run`. Numbers are compared on a small model in
float64 (TransformerLens keeps its results in float32) and must agree to 1e-5; so must those of the timed questions,
which are put to eight layers in float32. The weights are random: nothing is downloaded. Sides take turns; read the
ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from peer_model import VARIABLE, Given, Size, read, save_model, save_prompts
from peer_sides import ByHand, Lens, Pyvene, Table

import steer
from steer.experiments.given import subject_of
from steer.models.subject import Subject
from steer.results.directions import About, Direction, write_direction

SMALL = Size(layers=3, heads=4, tokens=10, prompts=6, width=32)
TIMED = Size(layers=8, heads=8, tokens=48, prompts=16)
AGREE = 1e-5
PORTS = ("z", "q", "k", "v", "pattern")
COUNT = 4  # dimensions of the rotated space
MEASURES = [{"name": "logit-difference", "against": "counterfactual"}]


class Steer:
    """The same questions as recipes."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.folder, self.dtype = folder, dtype
        self.subject: Subject = subject_of(f"hf:{folder}", dtype=dtype)

    def run(self, **keys: Any) -> dict[str, float]:
        recipe = {"checkpoint": f"hf:{self.folder}", "task": str(self.folder / "lines.jsonl"), "figure": "none"}
        result = steer.run(recipe | {"measures": MEASURES} | keys, self.subject, dtype=self.dtype)
        return {row.condition: row.value for row in result.rows}

    def by_place(self, sites: str) -> Table:
        return self.run(kind="activation-patch", variable=VARIABLE, sites=sites, places=["each"])

    def heads(self) -> Table:
        return self.run(kind="activation-patch", variable=VARIABLE, sites="dec-self-*.*.z")

    def paths(self, layer: int, head: int) -> Table:
        return self.run(
            kind="ablate-only-one", target=f"dec-self-{layer}.{head}.q", sources="dec-self-*",
            ablation={"value": "counterpart", "variable": VARIABLE},
        )  # fmt: skip

    def edited(self, layer: int, place: int, edits: Mapping[str, Any]) -> Table:
        site = {"sites": f"dec-mlp-{layer}", "places": [place + 1]}
        conditions = [{"name": name, "edits": [site | edit]} for name, edit in edits.items()]
        return self.run(
            kind="intervene", variable=VARIABLE, conditions=conditions, controls=0,
            no_controls="another tool makes the same edit",
        )  # fmt: skip


def made(home: Path, name: str, size: Size) -> Path:
    folder = home / name
    save_model(folder, size)
    save_prompts(folder / "lines.jsonl", size)
    return folder


def loaded(folder: Path, size: Size, dtype: torch.dtype) -> Given:
    """Each side gets weights of its own: some change the model's modules."""
    return read(folder, folder / "lines.jsonl", size, dtype)


def difference(theirs: Table, mine: Table) -> tuple[int, float]:
    """How many numbers were compared, and the largest difference; ours must have all of theirs."""
    if len({round(value, 6) for value in theirs.values()}) < 2 and len(theirs) > 1:
        raise SystemExit("all of these numbers are the same: nothing is compared")
    return len(theirs), max(abs(value - mine[name]) for name, value in theirs.items())


def compared(folder: Path) -> Iterator[tuple[str, str, Table, Table]]:
    """What was asked, of which tool, its numbers and ours."""
    mine, lens = Steer(folder, "float64"), Lens(loaded(folder, SMALL, torch.float64), folder)
    hand, pyvene = (kind(loaded(folder, SMALL, torch.float64)) for kind in (ByHand, Pyvene))
    for port in PORTS:
        yield (
            f"{port} of each head at each place",
            "TransformerLens",
            lens.by_place(port),
            mine.by_place(f"dec-self-*.*.{port}"),
        )
    yield "stream before each layer at each place", "TransformerLens", lens.streams(), mine.by_place("dec-resid-*.pre")
    heads = mine.heads()
    yield "z of each head", "TransformerLens", lens.heads(), heads
    yield "z of each head", "nnsight by hand", hand.heads(), heads
    yield "z of each head of a layer", "pyvene", pyvene.heads(1), heads
    yield from compared_paths(mine, lens, hand)
    yield from compared_edits(folder, mine, pyvene)


def compared_paths(mine: Steer, lens: Lens, hand: ByHand) -> Iterator[tuple[str, str, Table, Table]]:
    ports = [(layer, head) for layer in range(1, SMALL.layers) for head in range(SMALL.heads)]
    into = {f"dec-self-{layer}.{head}.q": mine.paths(layer, head) for layer, head in ports}
    ours = {f"{source} -> {port}": value for port, found in into.items() for source, value in found.items()}
    theirs = {f"{source} -> {port}": value for (source, port), value in lens.all_paths().items()}
    yield "each head's direct path into each later q", "TransformerLens", theirs, ours
    last = SMALL.layers - 1
    yield "the same into one q", "TransformerLens's hooks", lens.paths(last, 1), into[f"dec-self-{last}.1.q"]
    yield "the same into one q", "nnsight by hand", hand.paths(last, 1), into[f"dec-self-{last}.1.q"]


def compared_edits(folder: Path, mine: Steer, pyvene: Pyvene) -> Iterator[tuple[str, str, Table, Table]]:
    direction = torch.randn(SMALL.width, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    rotated, rows = pyvene.rotated(1, COUNT)
    for name, numbers in (("direction", direction[None]), ("space", rows)):
        about = About(way="random", words="of the benchmark", scores={})
        write_direction(Direction(numbers.numpy(), about), folder / f"{name}.safetensors")
    along = {"direction": str(folder / "direction.safetensors")}
    edits = {"add": {"add": along | {"scale": 1}}, "subtract": {"add": along | {"scale": -1}}}
    inside = {"subspace": str(folder / "space.safetensors"), "inside": "counterpart"}
    ours = mine.edited(1, pyvene.place, edits | {"rotated": {"project": inside}})
    yield "a direction added, and subtracted", "pyvene", pyvene.added(1, direction), ours
    yield f"{COUNT} dimensions of a rotated space", "pyvene", rotated, ours


def numbers(folder: Path) -> None:
    print(f"{'activation patching and edits':45}{'against':25}{'numbers':>8}{'largest difference':>20}")
    for name, tool, theirs, mine in compared(folder):
        count, largest = difference(theirs, mine)
        print(f"{name:45}{tool:25}{count:8,}{largest:20.1e}", flush=True)
        if largest > AGREE:
            raise SystemExit(f"{name}: {tool} differs by {largest:.1e}")


def times(folder: Path, rounds: int) -> None:
    mine = Steer(folder, "float32")
    lens, hand = Lens(loaded(folder, TIMED, torch.float32), folder), ByHand(loaded(folder, TIMED, torch.float32))
    last = TIMED.layers - 1, 3
    shape = f"{TIMED.layers} layers, {TIMED.heads} heads, {TIMED.prompts} prompts of {TIMED.tokens} tokens"
    print(f"\n{shape}, {rounds} rounds")
    race(
        "a sweep of all heads to the logits", rounds,
        {"steer": mine.heads, "TransformerLens": lens.heads, "nnsight by hand": hand.heads},
    )  # fmt: skip
    race(
        "direct paths from all earlier heads into one q", rounds,
        {
            "steer": lambda: mine.paths(*last), "TransformerLens": lambda: lens.paths(*last),
            "nnsight by hand": lambda: hand.paths(*last),
        },
    )  # fmt: skip


def race(name: str, rounds: int, sides: Mapping[str, Callable[[], Table]]) -> None:
    """Every side in turn; the same numbers before any ratio."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds):
        found = {}
        for side, work in sides.items():
            print(f"  … {name}, round {turn + 1}: {side}", file=sys.stderr, flush=True)
            started = time.perf_counter()
            found[side] = work()
            taken[side].append(time.perf_counter() - started)
        largest = max(difference(table, found["steer"])[1] for table in found.values())
        if largest > AGREE:
            raise SystemExit(f"{name}: the sides differ by {largest:.1e}")
    print(f"{name} (largest difference {largest:.1e})")
    for side, seconds in taken.items():
        ratio = statistics.median(b / a for a, b in zip(taken["steer"], seconds, strict=True))
        print(f"  {side:18}{statistics.median(seconds):8.2f} s{ratio:9.1f} x steer's time", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", choices=("numbers", "times"))
    chosen = options.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home, torch.no_grad():
        if chosen.only != "times":
            numbers(made(Path(home), "small", SMALL))
        if chosen.only != "numbers":
            times(made(Path(home), "timed", TIMED), chosen.rounds)


if __name__ == "__main__":
    main()
