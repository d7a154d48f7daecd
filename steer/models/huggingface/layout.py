"""A Hugging Face model's layout, from its family's row and its `config.json` as data: no torch, no weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from steer.anatomy.layout import INPUT, Block, Layout, Stream
from steer.anatomy.nodes import PORTS, Node, Site
from steer.base.errors import CheckpointError, unknown
from steer.models.huggingface.parts import Keys, Row, Stack
from steer.models.huggingface.rows import ROWS

TEXT = "text"  # the one sequence of a decoder: the prompt, and what was said after it
MOST_TOKENS = 1 << 20  # where a config names no limit
MOST = 10_000  # layers or heads: larger numbers are taken for a mistake
# Heads as papers write them, and the hooks of TransformerLens, on models with one kind of heads.
PAPERS = ((r"l?(\d+)[.h](\d+|\*)((?:\..+)?)", r"dec-self-\1.\2\3"),)
HOOKS = (
    (r"blocks\.(\d+)\.hook_resid_(pre|mid|post)", r"dec-resid-\1.\2"),
    (r"blocks\.(\d+)\.hook_mlp_out", r"dec-mlp-\1"),
    (r"blocks\.(\d+)\.attn\.hook_(v|z|pattern)", r"dec-self-\1.*.\2"),
    (r"blocks\.(\d+)\.attn\.hook_attn_scores", r"dec-self-\1.*.scores"),
    (r"blocks\.(\d+)\.attn\.hook_result", r"dec-self-\1.*.out"),
    (r"hook_embed", "dec.tok"),
    (r"hook_pos_embed", "dec.pos"),
    (r"ln_final\.hook_normalized", "dec.final"),
)
PLAIN_KEYS = ((r"blocks\.(\d+)\.attn\.hook_(q|k)", r"dec-self-\1.*.\2"),)
ROTATED_KEYS = (
    (r"blocks\.(\d+)\.attn\.hook_(q|k)", r"dec-self-\1.*.\2-pre"),
    (r"blocks\.(\d+)\.attn\.hook_rot_(q|k)", r"dec-self-\1.*.\2"),
)


@dataclass(frozen=True)
class Sizes:
    layers: int
    heads: int


def row_of(config: Mapping[str, Any], place: str) -> Row:
    """The row of a config's family, which must say nothing that the row does not describe."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in ROWS:
        named = unknown("family", str(family), list(ROWS)).partition(";")[0]
        raise CheckpointError(
            f"{place}: {named}; the families with a row are {', '.join(ROWS)}. A new one is a row in "
            "steer/models/huggingface/rows.py, and `steer doctor` says whether the row is right"
        )
    row = ROWS[family]
    classes = config.get("architectures") or row.classes
    if not isinstance(classes, list | tuple) or not all(isinstance(name, str) for name in classes):
        raise CheckpointError(f"{place}: architectures: a list of names is needed, not {classes!r:.40}")
    if not set(classes) & set(row.classes):
        raise CheckpointError(f"{place}: the row of {family} describes {row.classes[0]}, not {', '.join(classes)}")
    if config.get("quantization_config"):
        raise CheckpointError(f"{place}: quantized weights are not supported: heads are cut out of whole projections")
    faults = [
        f"{place}: {refusal.key}: {_setting(config, refusal.key)!r} is not supported: {refusal.why}"
        for refusal in row.refused
        if _setting(config, refusal.key) in refusal.values
    ]
    if faults:
        raise CheckpointError(*faults)
    return row


def _setting(config: Mapping[str, Any], key: str) -> Any:
    """A setting of the config, or of how it rotates."""
    parts = [config, *(config.get(name) or {} for name in ("rope_parameters", "rope_scaling"))]
    return next((part[key] for part in parts if isinstance(part, Mapping) and key in part), None)


def sizes_of(keys: Keys, config: Mapping[str, Any], place: str) -> Sizes:
    return Sizes(_number(config, keys.layers, place), _number(config, keys.heads, place))


def _number(config: Mapping[str, Any], keys: tuple[str, ...], place: str) -> int:
    number = next((config[key] for key in keys if config.get(key) is not None), None)
    if type(number) is not int or not 1 <= number <= MOST:
        raise CheckpointError(f"{place}: {keys[0]}: a whole number from 1 is needed, not {number!r:.40}")
    return number


def most_tokens(row: Row, config: Mapping[str, Any]) -> int:
    """How many tokens fit into a sequence."""
    return next((config[key] for key in row.lengths if type(config.get(key)) is int and config[key] > 0), MOST_TOKENS)


def padding(row: Row, config: Mapping[str, Any], place: str) -> tuple[int, int, int | None]:
    """The ids of padding, of the start of an answer and of its end.

    A decoder's answers are not closed: they go on as the text would. Padding is then the end of texts, if need be.
    """

    def token(key: str) -> int | None:
        value = config.get(key)
        return value[0] if isinstance(value, list) and value else value if type(value) is int and value >= 0 else None

    pad, start, end = (token(key) for key in ("pad_token_id", "decoder_start_token_id", "eos_token_id"))
    if row.encoder is None:
        return next(one for one in (pad, end, token("bos_token_id"), 0) if one is not None), 0, None
    if start is None or end is None or pad is None or pad == end:
        given = f"pad_token_id {pad}, decoder_start_token_id {start}, eos_token_id {end}"
        raise CheckpointError(f"{place}: padding, start and end of answers must be named, and differ: {given}")
    return pad, start, end


def is_parallel(row: Row, config: Mapping[str, Any]) -> bool:
    """Does the MLP read what the attention beside it reads? It does, where a config of such a family says nothing."""
    return bool(row.parallel) and bool(config.get(row.parallel, True))


def layout_of(config: Mapping[str, Any], place: str = "config.json") -> Layout:
    row = row_of(config, place)
    sizes = {name: sizes_of(stack.keys, config, place) for name, stack in row.stacks.items()}
    blocks = tuple(block for name in row.stacks for block in _blocks(row, name, sizes, is_parallel(row, config)))
    absent = tuple((f"{name}.pos", row.no_positions) for name in row.stacks if row.no_positions)
    memory, final, logits = (Site(Node(name)) for name in ("enc.memory", "dec.final", "logits"))
    if row.encoder is not None:
        streams = (
            Stream("enc", "prompt", memory, row.encoder.is_sum),
            Stream("dec", "answer", final, row.decoder.is_sum),
        )
        return Layout(blocks, streams, logits, absent=absent)
    aliases = (*PAPERS, *HOOKS, *(ROTATED_KEYS if row.rotary else PLAIN_KEYS))
    return Layout(blocks, (Stream("dec", TEXT, final, row.decoder.is_sum),), logits, TEXT, TEXT, absent, aliases)


def _blocks(row: Row, name: str, sizes: Mapping[str, Sizes], parallel: bool) -> Iterator[Block]:
    stack = row.stacks[name]
    yield Block(f"{name}.tok", name)
    if stack.positions:
        yield Block(f"{name}.pos", name, fixed=True)
    for layer in range(sizes[name].layers):
        crossed = stack.cross_attention is not None
        points = ["pre", "mid", "cross"] if crossed else ["pre", "mid"]
        at = [Site(Node(f"{name}-resid", layer), point) for point in (*points, "post")]
        own = (("q", name), ("k", name), ("v", name))
        yield Block(f"{name}-self", name, own, layer, sizes[name].heads, at[0], ports=_ports(row, stack))
        if crossed:
            reads = (("q", name), ("k", "enc"), ("v", "enc"))
            yield Block(f"{name}-cross", name, reads, layer, sizes[name].heads, at[1])
        yield Block(f"{name}-mlp", name, ((INPUT, name),), layer, at=at[-2], then=at[-1], beside=parallel)


def _ports(row: Row, stack: Stack) -> tuple[str, ...]:
    """The sites of a self-attention head: two more where keys are rotated, one more where scores have a bias."""
    before = ("q-pre", "k-pre") if row.rotary else ()
    return (*before, *PORTS[:3], *(("bias",) if stack.bias else ()), *PORTS[3:])
