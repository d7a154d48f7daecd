"""Where the places of a task's sequences are in a batch: by number, or by a name that an example gives to some.

A site of the prompt's sequence has the prompt's places, also on a model that has prompt and answer in one; any other
has those of the answer, the start token being the first (of several that open an answer the last, where its first token
is said). Names (`last`, a span's) are of places in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Site
from steer.models.protocol import Batch
from steer.tasks.task import ANSWER, PROMPT, Example, named_places


def task_sequence(layout: Layout, site: Site) -> str:
    """Of the task's two sequences the one whose places a site has."""
    return PROMPT if layout.sequence(site) == layout.prompt else ANSWER


def there(example: Example, sequence: str, spots: Sequence[int | str]) -> list[int]:
    """The places, from 0, that these are in one example; what it does not have is left out."""
    length = len(example.prompt) if sequence == PROMPT else len(example.answer) + 1
    numbered = [spot - 1 for spot in spots if isinstance(spot, int) and spot <= length]
    names = [spot for spot in spots if isinstance(spot, str) and sequence == PROMPT]
    return [*numbered, *(place for name in names for place in named_places(example, name))]


def paired(example: Example, two: tuple[int | str, int | str]) -> list[tuple[int, int]]:
    """The places of the prompt, from 0, that two spots exchange; a span's one by one."""
    return list(zip(*(there(example, PROMPT, [spot]) for spot in two), strict=False))


def unpaired(example: Example, two: tuple[int | str, int | str]) -> str:
    """Why two spots cannot be exchanged in an example; empty if they can."""
    one, other = (there(example, PROMPT, [spot]) for spot in two)
    if not one or not other:
        return f"without place {two[1] if one else two[0]!r}"
    if len(one) != len(other):
        return f"in which {two[0]!r} and {two[1]!r} are of different lengths"
    return f"in which {two[0]!r} and {two[1]!r} overlap" if {*one} & {*other} else ""


def chosen(layout: Layout, site: Site, spots: Sequence[int | str], batch: Batch, examples: Sequence[Example]) -> Tensor:
    """B T: true where a site of a batch is at one of these places. `examples`: the list that the batch is of."""
    sequence, tokens = task_sequence(layout, site), batch.tokens[layout.sequence(site)]
    if sequence == ANSWER:  # however much has been said so far
        steps = batch.at(ANSWER, tokens).shape[1]
        places = [spot - 1 for spot in spots if isinstance(spot, int) and spot <= steps]
        entries = [(row, place) for row in range(len(batch.rows)) for place in places]
    else:
        entries = [(n, place) for n, row in enumerate(batch.rows) for place in there(examples[row], PROMPT, spots)]
    rows = [row for row, _ in entries]
    pairs = list(zip(rows, batch.columns(sequence, rows, [place for _, place in entries]), strict=True))
    mask = torch.zeros_like(tokens, dtype=torch.bool)
    if pairs:
        mask[tuple(torch.tensor(pairs, device=mask.device).T)] = True
    return mask
