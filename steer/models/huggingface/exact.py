"""Checks that ask whether something arrives, once more in float64: a small effect rounds away in few digits.

A head whose attention is nearly one and zero hardly hears its queries. That is the model's own doing, and no fault.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import torch

from steer.models.huggingface import edits
from steer.models.huggingface.blocks import AttentionBlock
from steer.models.huggingface.findings import Finding
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.protocol import Batch

REPEATED = ("effect", "arrives")


def other_values(model: HuggingFaceModel, batch: Batch) -> Iterator[Finding]:
    """What edits do; what does not arrive must do so in float64."""
    findings = tuple(edits.other_values(model, batch))
    if all(one.ok for one in findings if one.check in REPEATED):
        yield from findings
        return
    with in_float64(model):
        again = tuple(edits.other_values(model, batch))
    for one, exact in zip(findings, again, strict=True):
        yield replace(exact, rounded=one.place) if one.check in REPEATED and not one.ok else one


@contextlib.contextmanager
def in_float64(model: HuggingFaceModel) -> Iterator[None]:
    """The same modules, and whatever is wrong with them, with all their numbers in float64 for a while."""
    tensors = [one for one in (*model.module.parameters(), *model.module.buffers()) if one.is_floating_point()]
    heads = [block.heads for block in model.module.modules() if isinstance(block, AttentionBlock)]
    data, softmax = [one.data for one in tensors], [one.softmax for one in heads]
    try:
        for one in tensors:
            one.data = one.data.double()
        for head in heads:
            object.__setattr__(head, "softmax", torch.float64)
        yield
    finally:
        for one, own in zip(tensors, data, strict=True):
            one.data = own
        for head, kind in zip(heads, softmax, strict=True):
            object.__setattr__(head, "softmax", kind)
