"""Activations for prompts of one's own: named tensors with tokens, lengths and prompts beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steer.anatomy.nodes import BETWEEN_TOKENS, Site
from steer.base.errors import SteerError
from steer.base.shipped import DEFAULT
from steer.experiments.given import CheckpointLike, subject_of
from steer.results.labelled import Activations, Axes

if TYPE_CHECKING:
    from torch import Tensor

    from steer.anatomy.layout import Layout
    from steer.models.protocol import Batch
    from steer.models.subject import Subject


def activations(
    checkpoint: CheckpointLike = DEFAULT, prompts: Sequence[Any] | str = (), sites: Sequence[str] | str = (), *,
    answers: Sequence[str] | None = None, device: str = "cpu", dtype: str = "float32",
) -> Activations:  # fmt: skip
    """What a clean run has at these sites (names, globs or roles: `dec-cross-1.*.k`, `$output.z`).

    A prompt is a text as the task writes it, or an example (`steer.episodes(10)`). The decoder is fed the right
    answer, unless `answers` says something else: a text for each prompt, perhaps empty.
    """
    import torch

    from steer.engine.engine import Engine

    subject = subject_of(checkpoint, device, dtype)
    named = _sites(subject, [sites] if isinstance(sites, str) else list(sites))
    chosen = list(dict.fromkeys(site for sites_of in named.values() for site in sites_of))
    examples = _examples(subject, [prompts] if isinstance(prompts, str) else list(prompts), answers)
    engine = Engine(subject.model)
    parts: dict[str, list[tuple[list[int], Tensor]]] = {}
    with torch.no_grad():
        batches = engine.batches(examples)
        for batch in batches:
            values = engine.clean(batch, chosen)
            for site in chosen:
                parts.setdefault(str(site), []).append((batch.rows, values[site].cpu()))
    along = {str(site): axis_names(engine.layout, site, parts[str(site)][0][1].ndim) for site in chosen}
    axes = axes_of(subject, examples, batches, along)
    names = {name: str(sites_of[0]) for name, sites_of in named.items() if len(sites_of) == 1}
    return Activations(subject.name, {name: in_order(some, axes, name) for name, some in parts.items()}, axes, names)


def _sites(subject: Subject, names: list[str]) -> dict[str, Sequence[Site]]:
    """What each name stands for."""
    if not names:
        raise SteerError(f"sites: name at least one, such as {subject.names.layout.heads[0]}.z")
    faults: list[str] = []
    stands: dict[str, Sequence[Site]] = {}
    for name in names:
        try:
            stands[name] = subject.names.sites(name)
        except SteerError as error:
            faults += [f"sites: {fault}" for fault in error.faults]
    if faults:
        raise SteerError(*faults)
    return stands


def _examples(subject: Subject, prompts: list[Any], answers: Sequence[str] | None) -> list[Any]:
    """Prompts as examples of the subject's task; all that is wrong with any of them is said at once."""
    if not prompts:
        raise SteerError("prompts: give at least one")
    faults: list[str] = []
    examples: list[Any] = []
    for number, prompt in enumerate(prompts):
        try:
            examples.append(subject.task.parse(prompt) if isinstance(prompt, str) else prompt)
            longest = subject.model.max_length
            if not hasattr(examples[-1], "prompt"):
                raise SteerError(f"a prompt is a text or an example, not {prompt!r:.60}")
            if len(examples[-1].prompt) > longest:
                raise SteerError(f"{len(examples[-1].prompt)} tokens, the model takes {longest}")
        except SteerError as error:
            faults += [f"prompt {number}: {fault.removeprefix('prompt: ')}" for fault in error.faults]
    if answers is not None and len(answers) != len(prompts):
        faults.append(f"answers: {len(answers)} for {len(prompts)} prompts")
    if faults:
        raise SteerError(*faults)
    if answers is None:
        return examples
    pairs = zip(examples, answers, strict=True)
    return [one.answering(_answer(subject, text, number)) for number, (one, text) in enumerate(pairs)]


def _answer(subject: Subject, said: str, number: int) -> tuple[str, ...]:
    words = tuple(said.split())
    for word in words:
        if word not in subject.task.tokens:
            raise SteerError(f"answer {number}: no token named {word!r}")
    return words


def axis_names(layout: Layout, site: Site, axes: int) -> tuple[str, ...]:
    """The sequence that each axis runs along; empty for examples and features."""
    own = layout.sequence(site)
    if site.port in BETWEEN_TOKENS:
        return ("", own, layout.looks_at(site.node))
    return ("", own, *[""] * (axes - 2))


def axes_of(
    subject: Subject, examples: Sequence[Any], batches: Sequence[Batch], along: Mapping[str, tuple[str, ...]]
) -> Axes:
    """The tokens of each example along the model's sequences, without padding."""
    vocabulary, tokens = subject.scoring.vocabulary, {}
    for sequence in dict.fromkeys(name for axes in along.values() for name in axes if name):
        rows: dict[int, tuple[str, ...]] = {}
        for batch in batches:
            for place, row in enumerate(batch.rows):
                ids = batch.tokens[sequence][place][batch.real[sequence][place]].tolist()
                rows[row] = vocabulary.decode(ids)
        tokens[sequence] = tuple(rows[row] for row in range(len(examples)))
    answers = tuple(tuple(example.answer) for example in examples)
    return Axes(tuple(map(str, examples)), answers, tokens, dict(along))


def in_order(parts: Sequence[tuple[list[int], Tensor]], axes: Axes, name: str) -> Tensor:
    """Batches put back into the order of the examples, of one size; zero where there is no real token."""
    along = axes.along[name]
    size = [max(value.shape[axis] for _, value in parts) for axis in range(1, parts[0][1].ndim)]
    whole = parts[0][1].new_zeros(len(axes.prompts), *size)
    for rows, value in parts:
        for row, one in zip(rows, value, strict=True):
            real = tuple(
                slice(len(axes.tokens[sequence][row]) if sequence else length)
                for sequence, length in zip(along[1:], one.shape, strict=True)
            )
            whole[row][real] = one[real]
    return whole
