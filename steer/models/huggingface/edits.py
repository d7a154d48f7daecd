"""Checks of edits: a site's own value changes nothing, another one arrives where the layout says, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from steer.anatomy.layout import touched
from steer.anatomy.nodes import Site
from steer.models.huggingface.findings import Finding, Worst
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.huggingface.passes import met_on
from steer.models.protocol import Batch, head_axis

LAYERS = 6  # of deeper stacks the first, the middle and the last layers are edited
HIDDEN = 1e6  # beyond, a score is of something that may not be looked at


def own_values(model: HuggingFaceModel, batch: Batch) -> Finding:
    """Each hook's clean value put back, in a pass that starts there."""
    clean = met_on(model, batch)
    worst = Worst(0.0)
    for site in edited_sites(model):
        hook, start = model.steps.hook(site), model.steps.step(site)
        values = met_on(model, batch, {hook: lambda value, hook=hook: clean[hook]}, start, clean)  # type: ignore[misc]
        worst.see(str(site), values["logits"], clean["logits"])
    return worst.finding("own value", "a site's own value, written to it, changes nothing")


def other_values(model: HuggingFaceModel, batch: Batch) -> Iterator[Finding]:
    """One head's value (or a whole one) changed at each hook: what moves is what the layout says."""
    clean, carried = met_on(model, batch), carried_sites(model)
    least, silent, leaks, lost = float("inf"), "", "", ""
    sites, still = edited_sites(model), silent_mlps(model, clean)
    for site in sites:
        change = {model.steps.hook(site): lambda value, site=site: disturbed(value, site)}
        edited = met_on(model, batch, change, model.steps.step(site), clean)
        moved, due = _moved(carried, clean, edited), touched(model.layout, [site])
        leaks = leaks or next((f"{site} -> {other}" for other in moved if other not in due), "")
        lost = lost or next((f"{site} -> {other}" for other in due if other not in moved | still), "")
        if model.layout.logits in due:
            effect = (edited["logits"] - clean["logits"]).abs().max().item()
            least, silent = min((least, silent), (effect, str(site)))
    yield Finding("effect", "another value changes the logits", least, 0.0, silent, is_effect=True, of=len(sites))
    yield Finding(
        "arrives", "an edit changes all that is computed from it", float(bool(lost)), 0.0, lost, of=len(sites)
    )
    yield Finding("nowhere else", "an edit changes nothing else", float(bool(leaks)), 0.0, leaks, of=len(sites))


def silent_mlps(model: HuggingFaceModel, clean: Mapping[str, Tensor]) -> set[Site]:
    """MLPs that write one and the same vector at every place, as in attention-only models: no edit can change it."""
    written = {site: clean[model.steps.hook(site)].flatten(0, 1) for site in map(model.layout.write, model.layout.mlps)}
    return {site for site, value in written.items() if bool((value == value[0]).all())}


def carried_sites(model: HuggingFaceModel) -> dict[str, list[Site]]:
    """The sites that each hook holds the values of."""
    carried: dict[str, list[Site]] = {}
    for site in model.layout.sites:
        if site.port != "out":
            carried.setdefault(model.steps.hook(site), []).append(site)
    return carried


def edited_sites(model: HuggingFaceModel) -> list[Site]:
    """A site of each hook, of a head in the middle of its block, in some layers."""
    by_hook: dict[str, Site] = {}
    for site in model.layout.sites:
        node = site.node
        if site.port == "out" or not _is_chosen(model, node.kind, node.layer):
            continue
        if not node.is_head or node.head == len(model.layout.siblings(node)) // 2:
            by_hook.setdefault(model.steps.hook(site), site)
    return sorted(by_hook.values(), key=model.steps.order)


def _is_chosen(model: HuggingFaceModel, kind: str, layer: int | None) -> bool:
    stack = kind.partition("-")[0]
    count = 1 + max((b.layer or 0 for b in model.layout.blocks if b.writes == stack), default=0)
    return layer is None or count <= LAYERS or layer in (0, 1, count // 2, count - 2, count - 1)


def disturbed(value: Tensor, site: Site) -> Tensor:
    """A value with noise of its own size in it: in one head's part, where there are heads."""
    generator = torch.Generator().manual_seed(0)
    plain = value[value.abs() < HIDDEN].double()
    size = plain.pow(2).mean().sqrt().item() if plain.numel() else 1.0
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value) * max(size, 0.01)
    changed = value + noise
    if site.node.head is None:
        return changed
    axis, whole = head_axis(site), value.clone()
    whole.select(axis, site.node.head).copy_(changed.select(axis, site.node.head))
    return whole


def _moved(carried: Mapping[str, list[Site]], clean: Mapping[str, Tensor], edited: Mapping[str, Tensor]) -> set[Site]:
    """The sites whose values are not the clean ones. (A pass that starts midway has not touched what comes before.)"""
    moved: set[Site] = set()
    for hook, sites in carried.items():
        if hook not in edited:
            continue
        apart = edited[hook] != clean[hook]
        if not sites[0].node.is_head:
            moved |= set(sites) if bool(apart.any()) else set()
            continue
        heads = apart.transpose(0, head_axis(sites[0])).flatten(1).any(1).tolist()
        moved |= {site for site in sites if heads[site.node.head or 0]}
    return moved | {Site(site.node, "out") for site in moved if site.port == "z"}
