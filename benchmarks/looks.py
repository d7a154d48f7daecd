"""Where do right-hand colours of the asked function's demonstrations look? And which head did each grow from?

    python benchmarks/looks.py strict2 --split long --parent seed2

The reading of the role primitive-retrieval is one symbol in one item. This counts everything else as
well: other copies of the symbol, the function, copies of the colour itself. `--parent`: the layer-1 head of another
checkpoint whose weights are most alike.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict

import torch

from steer.anatomy.nodes import Node, Site
from steer.discover.lab import Lab
from steer.models.checkpoint import load_checkpoint
from steer.tasks.compositional.episode import Demonstration, Episode
from steer.tasks.compositional.program import understand
from steer.tasks.compositional.roles import items, right_side
from steer.tasks.compositional.selection import Episodes, select

COUNT, SHOWN = 200, 0.3  # episodes; shares below are left out


def seen(episode: Episode, start: int, shown: Demonstration, colour: str, place: int) -> str:
    """What a place is to a right-hand colour of a demonstration."""
    token, symbol_of = episode.prompt[place], {c: s for s, c in understand(episode).colours.items()}
    where = "its own item" if start <= place < start + len(shown.call.tokens) else "elsewhere"
    names = {symbol_of.get(colour): "symbol", shown.call.function: "function", colour: "colour"}
    return f"{names[token]}, {where}" if token in names else "other"


def looks(name: str, split: str) -> tuple[dict[Node, Counter[str]], int]:
    """What each encoder head looks at most, and of how many places."""
    some = [e for e in select(Episodes.model_validate({"split": split, "arity": 2}), 0) if len(asked(e)) > 1][:COUNT]
    lab, found, places = Lab(load_checkpoint(name), some), defaultdict[Node, Counter[str]](Counter), 0
    heads = [head for head in lab.layout.heads if head.kind == "enc-self"]
    for part in lab.reading([Site(head, "pattern") for head in heads]):
        for number, row in enumerate(part.batch.rows):
            for shown, start in asked(some[row]):
                for place, colour in zip(right_side(shown, start), shown.output, strict=True):
                    places += 1
                    for head in heads:
                        most = int(part.values[Site(head, "pattern")][number, place].argmax())
                        found[head][seen(some[row], start, shown, colour, most)] += 1
    return found, places


def asked(episode: Episode) -> list[tuple[Demonstration, int]]:
    """The demonstrations of the asked function, with their first places."""
    function = episode.question.function
    return [(i, start) for i, start in items(episode) if isinstance(i, Demonstration) and i.call.function == function]


def head_weights(name: str) -> list[torch.Tensor]:
    weights = {key: value.detach() for key, value in load_checkpoint(name).model.module.state_dict().items()}
    rows = torch.stack([weights[f"enc.1.self_attn.W_{which}.weight"].reshape(8, -1) for which in "QKV"], 1).flatten(1)
    columns = weights["enc.1.self_attn.W_O.weight"].reshape(-1, 8, 16).transpose(0, 1).flatten(1)
    return list(torch.cat([rows, columns], 1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--split", default="test")
    parser.add_argument("--parent")
    told = parser.parse_args()
    found, places = looks(told.name, told.split)
    for head, counts in found.items():
        line = ", ".join(f"{what} {n / places:.2f}" for what, n in counts.most_common() if n / places > SHOWN)
        print(f"{head}  {line}")
    if told.parent:
        before = torch.stack(head_weights(told.parent))
        for number, mine in enumerate(head_weights(told.name)):
            alike = torch.cosine_similarity(before, mine[None], 1)
            print(f"enc-self-1.{number} is {told.parent}'s enc-self-1.{int(alike.argmax())}: cosine {alike.max():.2f}")


if __name__ == "__main__":
    main()
