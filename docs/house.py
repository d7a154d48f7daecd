"""The house as a picture: the rooms of `steer/` in their order, and who imports whom. Run by `make house`.

    python docs/house.py [--check]

A room may import only rooms above it. `--check` prints the imports that break this, and fails if there are any.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = {  # in order, each with its law
    "base": "knows nothing about models, tasks or experiments",
    "anatomy": "knows no architecture: a layout is a table",
    "results": "results as typed data; draws nothing",
    "tasks": "knows no part of a model",
    "plan": "meaning only: no steps, no hooks, no recipe",
    "models": "the only one that knows what a family is made of",
    "measures": "no measure knows another",
    "recipe": "recipe in, plan out; every fault has its place",
    "engine": "runs plans; only its backends import nnsight",
    "drawing": "rows in, picture out",
    "experiments": "whole experiments, as tables of contents",
    "discover": "finds circuits; runs all through sessions",
    "paper": "the only one that quotes the paper",
    "commands": "parses, calls one function, prints",
}
Imports = Counter[tuple[str, str]]  # (room, room that it imports) -> how often


def imports(package: Path = ROOT / "steer") -> dict[tuple[str, str], list[str]]:
    """(room, room that it imports) -> files and lines of these imports."""
    found: dict[tuple[str, str], list[str]] = {}
    for file in sorted(package.rglob("*.py")):
        room = file.relative_to(package).parts[0]
        for node in ast.walk(ast.parse(file.read_text())):
            for module in _modules(node):
                parts = module.split(".")
                if room in ROOMS and parts[0] == "steer" and len(parts) > 1 and parts[1] in ROOMS and parts[1] != room:
                    place = f"{file.relative_to(package.parent)}:{getattr(node, 'lineno', 0)}"
                    found.setdefault((room, parts[1]), []).append(place)
    return found


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [f"steer.{alias.name}" for alias in node.names] if node.module == "steer" else [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def upward(found: dict[tuple[str, str], list[str]]) -> dict[tuple[str, str], list[str]]:
    """The imports that go against the order."""
    order = list(ROOMS)
    return {pair: places for pair, places in found.items() if order.index(pair[1]) > order.index(pair[0])}


def storeys(found: dict[tuple[str, str], list[str]]) -> dict[str, int]:
    """How high each room stands: one above the highest room that it imports."""
    height: dict[str, int] = {}
    for room in ROOMS:
        height[room] = 1 + max((height.get(other, 0) for one, other in found if one == room), default=0)
    return height


def draw(found: dict[tuple[str, str], list[str]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    order = list(ROOMS)
    figure = Figure(figsize=(7.2, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for (room, other), places in found.items():
        axes.plot(order.index(other), order.index(room), "s", color="#0173b2", markersize=2 + 2.2 * len(places) ** 0.5)
    axes.set_xticks(range(len(order)), order, rotation=45, ha="left", fontsize=8)
    axes.set_yticks(range(len(order)), [f"{room}: {law}" for room, law in ROOMS.items()], fontsize=8)
    axes.xaxis.tick_top()
    axes.invert_yaxis()
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    high = max(storeys(found).values())
    text = f"A room imports the rooms marked in its row (larger: more often).\n{len(found)} pairs, {high} storeys."
    figure.suptitle(text, fontsize=9, x=0.01, ha="left")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def main(check: bool) -> int:
    found = imports()
    wrong = upward(found)
    for (room, other), places in wrong.items():
        print(f"{room} imports {other}, which comes after it: {', '.join(places)}")
    if not check:
        draw(found, ROOT / "docs" / "images" / "house.png")
    count = sum(map(len, found.values()))
    high = max(storeys(found).values())
    print(f"{len(ROOMS)} rooms, {high} storeys, {count} imports between {len(found)} pairs, {len(wrong)} upward")
    return int(bool(wrong))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="count, and draw nothing")
    sys.exit(main(options.parse_args().check))
