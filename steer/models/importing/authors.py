"""The weights of the paper's authors: `net-HookedBIMLSmall.pt` of their repository.

A file of `torch.save` with the state dict of a network built from PyTorch's own layers, its two vocabularies and its
sizes. The number of heads is not in it (their class has 8), and neither is that the network is pre-norm: their forward
pass is written so, whatever the flag `norm_first` of its layers says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from steer.base.errors import SteerError
from steer.models.checkpoint import compare_tensors, describe_tensors
from steer.models.importing.archive import REBUILD, STORAGE, Archive, read_archive
from steer.models.importing.made import Read, make_config, token_rows
from steer.models.importing.pickled import ORDERED, Made
from steer.models.importing.stacks import (
    Ends,
    Stacks,
    check_final_norms,
    is_position_table,
    parts,
    place_tensors,
    their_shapes,
)
from steer.models.plain.config import ModelConfig
from steer.tasks import TASKS

TASK, HEADS = "authors", 8
TOKENS = {"input": 19, "output": 9}  # how many of the task's, from the first
LANGS = ("MLC_datasets.Lang", "train_lib.Lang")
NAMES = {
    ORDERED, REBUILD, STORAGE, *LANGS, "argparse.Namespace", "numpy.dtype", "_codecs.encode",
    "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar",
}  # fmt: skip
MLC = "this is a file of base MLC, a post-norm network that the plain model (pre-norm) cannot compute"
POSITIONS, MLC_POSITIONS = "pos_embedding.pos_embedding", "positional_encoding.pos_embedding"
ENDS = Ends("input_embedding.weight", "output_embedding.weight", "out.weight", "out.bias")
SIZES = ("emb_size", "ff_mult", "nlayers_encoder", "nlayers_decoder", "input_size", "output_size")
TOLD = (*SIZES, "dropout", "activation", "episode_type", "nepochs", "batch_size", "step", "epoch")
MORE = " (the authors' 3+3 file is said to lack one; the paper's network is net-HookedBIMLSmall.pt)"


def read_authors(data: bytes, place: str, max_length: int) -> Read:
    archive = read_archive(data, place)
    document = archive.unpickle(NAMES, {"datasets.Lang": MLC})
    _check_document(document, place)
    prompt, answer = (_tokens(document, side, place) for side in ("input", "output"))
    config = _config(document, max_length, place)
    tensors = _tensors(archive, document["nets_state_dict"])
    stacks = Stacks("transformer.encoder.", "transformer.decoder.", config.encoder_layers, config.decoder_layers)
    wanted = parts(stacks, ENDS)
    _check_tensors(tensors, their_shapes(wanted, config), stacks, place)
    ours = TASKS[TASK].tokens
    rows = token_rows(prompt, ours), token_rows(answer, ours[: len(answer)])
    facts = {key: document[key] for key in TOLD if isinstance(document.get(key), str | int | float)}
    return Read(place_tensors(tensors, wanted, *rows), config, TASK, ours, facts)


def _check_document(document: object, place: str) -> None:
    needed = {"nets_state_dict": dict, "langs": dict, "dropout": float, "activation": str} | dict.fromkeys(SIZES, int)
    if not isinstance(document, dict):
        raise SteerError(f"{place}: is not a dictionary, as the authors' files are")
    missing = [key for key in needed if key not in document]
    if missing:
        raise SteerError(f"{place}: is not a file of the authors: it lacks {', '.join(missing)}")
    wrong = [
        f"{place}: {key}: is not of type {kind.__name__}"
        for key, kind in needed.items()
        if type(document[key]) is not kind
    ]
    if wrong:
        raise SteerError(*wrong)


def _config(document: Mapping[str, Any], max_length: int, place: str) -> ModelConfig:
    width = document["emb_size"]
    if width < HEADS or width % HEADS:
        raise SteerError(f"{place}: emb_size: {width} is not a multiple of {HEADS}, the number of heads")
    return make_config(
        place, encoder_layers=document["nlayers_encoder"], decoder_layers=document["nlayers_decoder"], heads=HEADS,
        d_model=width, d_head=width // HEADS, d_ff=width * document["ff_mult"], dropout=document["dropout"],
        max_length=max_length, vocabulary=document["input_size"], answers=document["output_size"],
        activation=document["activation"],
    )  # fmt: skip


def _tokens(document: Mapping[str, Any], side: str, place: str) -> Sequence[str]:
    """A vocabulary of the file in the order of its ids: the authors' symbols, each once."""
    place, expected = f"{place}: langs.{side}", TASKS[TASK].tokens[: TOKENS[side]]
    lang = document["langs"].get(side)
    state = lang.state if isinstance(lang, Made) and lang.name in LANGS else None
    facts = state if isinstance(state, dict) else {}
    ids, symbols = facts.get("symbol2index"), facts.get("index2symbol")
    if not isinstance(ids, dict) or not all(type(key) is str and type(value) is int for key, value in ids.items()):
        raise SteerError(f"{place}: has no symbol2index that maps symbols to numbers")
    strange = sorted(set(ids) ^ set(expected))
    if strange:
        raise SteerError(f"{place}: not the authors' symbols; missing or strange: {' '.join(strange):.200}")
    if sorted(ids.values()) != list(range(len(expected))) or document[f"{side}_size"] != len(expected):
        raise SteerError(f"{place}: the numbers of its symbols are not 0 to {len(expected) - 1}, each once")
    if symbols != {number: symbol for symbol, number in ids.items()}:
        raise SteerError(f"{place}: index2symbol and symbol2index disagree")
    return sorted(ids, key=ids.__getitem__)


def _tensors(archive: Archive, state: Mapping[Any, Any]) -> dict[str, Tensor]:
    inner = state["net"] if list(state) == ["net"] else state  # an older variant wraps it once more
    if not isinstance(inner, dict) or not inner:
        raise SteerError(f"{archive.place}: nets_state_dict: holds no tensors")
    return {str(key): archive.tensor(made, f"nets_state_dict: {key!s:.100}") for key, made in inner.items()}


def _check_tensors(tensors: dict[str, Tensor], expected: dict[str, str], stacks: Stacks, place: str) -> None:
    """Check names and shapes of all tensors. The position table must be ours, and is then dropped."""
    if MLC_POSITIONS in tensors:
        raise SteerError(f"{place}: has {MLC_POSITIONS}: {MLC}")
    check_final_norms(list(tensors), stacks, place, MORE)
    positions = tensors.pop(POSITIONS, None)
    compare_tensors(describe_tensors(tensors), expected, place)
    if positions is None:
        raise SteerError(f"{place}: 1 missing tensors: {POSITIONS}")
    if not is_position_table(positions, tensors[ENDS.prompt].shape[1]):
        raise SteerError(f"{place}: {POSITIONS}: not the sinusoids that the plain model adds (1e-3 was allowed)")
