"""The other sides of `peers.py`: TransformerLens' own functions, nnsight by hand, pyvene's own interventions."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from nnsight import NNsight
from peer_model import Given
from torch import Tensor
from torch.nn import functional as F

Table = Mapping[str, float]  # what was changed, as steer spells it -> the metric


# TransformerLens: its bridge around the same weights, its patching functions.


class Lens:
    def __init__(self, given: Given, folder: Path) -> None:
        from transformer_lens.model_bridge import TransformerBridge

        self.given = given
        with contextlib.redirect_stdout(io.StringIO()):
            self.model = TransformerBridge.boot_transformers(str(folder), hf_model=given.model, dtype=given.model.dtype)
        _, self.clean = self.model.run_with_cache(given.other)  # what it calls clean lends values
        _, self.corrupted = self.model.run_with_cache(given.ids)

    def patched(self, function: str) -> Tensor:
        """One of its sweeps, with our prompts as the corrupted ones: what it patches in is the counterparts'."""
        from transformer_lens import patching

        with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
            return getattr(patching, function)(self.model, self.given.ids, self.clean, self.given.metric)  # type: ignore[no-any-return]

    def by_place(self, port: str) -> Table:
        """Each head's q, k, v, z or pattern at each place; of a pattern, the place that looks."""
        name = {"z": "out"}.get(port, port)
        found = self.patched(f"get_act_patch_attn_head_{name}_by_pos")
        if port == "pattern":
            found = found.transpose(1, 2)  # layer, head, place
        return {
            f"dec-self-{layer}.{head}.{port} at {place + 1}": float(found[layer, place, head])
            for layer, place, head in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist()
        }

    def streams(self) -> Table:
        found = self.patched("get_act_patch_resid_pre")
        return {
            f"dec-resid-{layer}.pre at {place + 1}": float(value)
            for layer, row in enumerate(found)
            for place, value in enumerate(row)
        }

    def heads(self) -> Table:
        found = self.patched("get_act_patch_attn_head_out_all_pos")
        return {f"dec-self-{n}.{h}.z": float(value) for n, row in enumerate(found) for h, value in enumerate(row)}

    def all_paths(self) -> Mapping[tuple[str, str], float]:
        """Its sweep over direct paths from each head into each later head's q."""
        from transformer_lens import patching

        asked = (self.model, self.given.ids, self.clean, self.corrupted, self.given.metric, "q")
        found = patching.get_act_patch_direct_path_all_sources(*asked, verbose=False)
        return {
            (f"dec-self-{a}.{b}", f"dec-self-{c}.{d}.q"): float(found[a, b, c, d])
            for a, b, c, d in torch.cartesian_prod(*map(torch.arange, found.shape)).tolist()
            if a < c
        }

    def paths(self, layer: int, head: int) -> Table:
        """The same into one head alone, the way that function makes them: it has no option to ask for one."""
        found = {}
        self.model.set_use_split_qkv_input(True)
        for source in range(layer):
            name, weight = f"blocks.{source}.attn.hook_z", self.model.blocks[source].attn.W_O
            change = self.clean[name] - self.corrupted[name]
            for number in range(self.given.size.heads):
                hook = _adding(change[:, :, number] @ weight[number], head)
                logits = self.model.run_with_hooks(
                    self.given.ids, fwd_hooks=[(f"blocks.{layer}.attn.hook_q_input", hook)]
                )
                found[f"dec-self-{source}.{number}"] = float(self.given.metric(logits))
        self.model.set_use_split_qkv_input(False)
        return found


def _adding(change: Tensor, head: int) -> Callable[..., Tensor]:
    def hook_fn(value: Tensor, hook: Any) -> Tensor:
        value = value.clone()
        value[:, :, head] += change
        return value

    return hook_fn


# nnsight by hand: a trace for each head, or for each path, on transformers' own modules.


class ByHand:
    def __init__(self, given: Given) -> None:
        self.given, self.traced = given, NNsight(given.model)
        self.own, self.lent = self._z(given.ids), self._z(given.other)

    def _z(self, ids: Tensor) -> list[Tensor]:
        """Each layer's z, by head."""
        found: list[Any] = []
        with self.traced.trace(input_ids=ids, use_cache=False):
            for block in self.traced.transformer.h:
                found.append(block.attn.c_proj.input.clone().save())
        return [value.unflatten(-1, (self.given.size.heads, -1)) for value in found]

    def heads(self) -> Table:
        return {
            f"dec-self-{layer}.{head}.z": self._head(layer, head)
            for layer in range(self.given.size.layers)
            for head in range(self.given.size.heads)
        }

    def _head(self, layer: int, head: int) -> float:
        new = self.own[layer].clone()
        new[:, :, head] = self.lent[layer][:, :, head]
        with self.traced.trace(input_ids=self.given.ids, use_cache=False):
            self.traced.transformer.h[layer].attn.c_proj.input = new.flatten(2)
            logits = self.traced.output.logits.save()
        return float(self.given.metric(logits))

    def paths(self, layer: int, head: int) -> Table:
        heads = self.given.size.heads
        return {
            f"dec-self-{source}.{number}": self._path(source, number, layer, head)
            for source in range(layer)
            for number in range(heads)
        }

    def _path(self, source: int, number: int, layer: int, head: int) -> float:
        """The difference of the source's write is added to what one head's query is made from."""
        size = self.given.size.width // self.given.size.heads
        network = self.given.model.transformer.h
        weight = network[source].attn.c_proj.weight[number * size : (number + 1) * size]
        change = (self.lent[source] - self.own[source])[:, :, number] @ weight
        norm, port = network[layer].ln_1, network[layer].attn.c_attn
        part = slice(head * size, (head + 1) * size)
        with self.traced.trace(input_ids=self.given.ids, use_cache=False):
            block = self.traced.transformer.h[layer]
            stream = block.input + change
            normed = F.layer_norm(stream, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
            value = block.attn.c_attn.output.clone()
            value[..., part] = normed @ port.weight[:, part] + port.bias[part]
            block.attn.c_attn.output = value
            logits = self.traced.output.logits.save()
        return float(self.given.metric(logits))


# pyvene: its own kinds of interventions.


class Pyvene:
    def __init__(self, given: Given) -> None:
        self.given, self.place = given, given.size.tokens // 2

    def _run(self, layer: int, intervention: Any, lends: bool) -> float:
        import pyvene

        asked = [{"layer": layer, "component": "mlp_output", "intervention": intervention}]
        wrapped = pyvene.IntervenableModel(asked, model=self.given.model)
        places = [[[self.place]] * len(self.given.ids)]
        sources = [{"input_ids": self.given.other}] if lends else None
        where = {"sources->base": (places, places) if lends else (None, places)}
        _, out = wrapped({"input_ids": self.given.ids}, sources, unit_locations=where)
        return float(self.given.metric(out.logits))

    def added(self, layer: int, direction: Tensor) -> Table:
        """A constant added to and taken from what an MLP writes at one token."""
        import pyvene

        found = {}
        for name, kind in (("add", pyvene.AdditionIntervention), ("subtract", pyvene.SubtractionIntervention)):
            made = kind(embed_dim=self.given.size.width, source_representation=direction)
            made.set_interchange_dim(self.given.size.width)
            found[name] = self._run(layer, made, False)
        return found

    def rotated(self, layer: int, count: int) -> tuple[Table, Tensor]:
        """The first coordinates of a rotated space taken from the counterpart; and the rows that span them."""
        import pyvene

        torch.manual_seed(1)
        made = pyvene.RotatedSpaceIntervention(embed_dim=self.given.size.width).to(self.given.model.dtype)
        made.set_interchange_dim(count)
        with torch.no_grad():
            value = self._run(layer, made, True)
            return {"rotated": value}, made.rotate_layer.weight[:, :count].T.clone()

    def heads(self, layer: int) -> Table:
        """One layer's heads, each with the z of the counterpart."""
        import pyvene

        found = {}
        for head in range(self.given.size.heads):
            asked = [{
                "layer": layer, "component": "head_attention_value_output", "unit": "h", "max_number_of_units": 1,
                "intervention_type": pyvene.VanillaIntervention,
            }]  # fmt: skip
            wrapped = pyvene.IntervenableModel(asked, model=self.given.model)
            units = [[[head]] * len(self.given.ids)]
            _, out = wrapped(
                {"input_ids": self.given.ids}, [{"input_ids": self.given.other}],
                unit_locations={"sources->base": (units, units)},
            )  # fmt: skip
            found[f"dec-self-{layer}.{head}.z"] = float(self.given.metric(out.logits))
        return found
