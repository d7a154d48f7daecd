"""A state dict of `torch.nn.Transformer`, or of `TransformerEncoder` and `TransformerDecoder`, in a safetensors file.

A state dict does not say how many heads there are, whether norms come first or what the rows of an embedding mean:
the user must say so. What the state dict does say is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from steer.base.errors import SteerError, unknown
from steer.base.files import read_text
from steer.models.checkpoint import compare_tensors, describe_tensors
from steer.models.header import read_header
from steer.models.importing.made import Read, make_config, token_rows
from steer.models.importing.options import StateDictOptions
from steer.models.importing.stacks import (
    Ends,
    Stacks,
    check_final_norms,
    find_stacks,
    is_position_table,
    parts,
    place_tensors,
    their_shapes,
)
from steer.models.plain.config import ModelConfig
from steer.tasks import TASKS

MAX_VOCABULARY = 20_000_000  # bytes


def read_state_dict(data: bytes, place: str, options: StateDictOptions) -> Read:
    tensors = _load(data, place)
    ends = _ends(tensors, options)
    stacks = find_stacks(list(tensors), place)
    check_final_norms(list(tensors), stacks, place)
    prompt, answer = _vocabularies(tensors, options)
    ours = order_tokens(prompt, answer, options)
    config = _config(tensors, stacks, options, (len(prompt), len(answer)), place)
    wanted = parts(stacks, ends)
    expected = their_shapes(wanted, config)
    _check_tensors(tensors, expected, config, place)
    rows = token_rows(prompt, ours), token_rows(answer, ours[: len(answer)])
    said = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(options).items()}
    return Read(place_tensors(tensors, wanted, *rows), config, options.task, ours, said)


def _load(data: bytes, place: str) -> dict[str, Tensor]:
    try:
        read_header(BytesIO(data), place)
        return load(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise SteerError(f"{place}: cannot be read as safetensors ({error})") from error


def _ends(tensors: Mapping[str, Tensor], options: StateDictOptions) -> Ends:
    keys = {
        "--prompt-embedding": options.prompt_embedding, "--answer-embedding": options.answer_embedding,
        "--unembedding": options.unembedding,
    }  # fmt: skip
    faults = [
        f"{option}: {unknown('tensor', key, list(tensors))}" for option, key in keys.items() if key not in tensors
    ]
    faults = faults or [f"{option}: {key} is not a matrix" for option, key in keys.items() if tensors[key].ndim != 2]
    if faults:
        raise SteerError(*faults)
    bias = options.unembedding.removesuffix("weight") + "bias"
    return Ends(
        options.prompt_embedding, options.answer_embedding, options.unembedding, bias if bias in tensors else None
    )


def _vocabularies(tensors: Mapping[str, Tensor], options: StateDictOptions) -> tuple[Sequence[str], Sequence[str]]:
    """The tokens of prompts and of answers, in the order of the rows of their tables."""
    prompt, size = read_tokens(options.vocabulary), len(tensors[options.answer_embedding])
    answer = read_tokens(options.answer_vocabulary) if options.answer_vocabulary else prompt[:size]
    for tokens, key, option in (
        (prompt, options.prompt_embedding, "--vocabulary"),
        (answer, options.answer_embedding, "--answer-vocabulary"),
    ):
        if len(tokens) != len(tensors[key]):
            raise SteerError(f"{option}: {len(tokens)} tokens; {key} has {len(tensors[key])} rows")
    return prompt, answer


def read_tokens(path: Path) -> Sequence[str]:
    tokens = [line.strip() for line in read_text(path, MAX_VOCABULARY).splitlines()]
    for number, token in enumerate(tokens, start=1):
        if not token or len(token.split()) > 1:
            raise SteerError(f"{path}:{number}: one token on each line, without spaces")
    if len(set(tokens)) < len(tokens):
        twice = next(token for number, token in enumerate(tokens) if token in tokens[:number])
        raise SteerError(f"{path}: {twice!r:.80} is listed twice")
    return tokens


def order_tokens(prompt: Sequence[str], answer: Sequence[str], options: StateDictOptions) -> tuple[str, ...]:
    """Our order: padding, start and end, the other tokens of answers, then those of prompts alone."""
    needed = TASKS[options.task].tokens
    missing = [token for token in needed if token not in set(prompt)]
    if missing:
        raise SteerError(f"--vocabulary: without {' '.join(missing):.200}, which the task {options.task!r} has")
    frame = needed[:3]
    strange = [token for token in answer if token not in set(prompt)]
    lacking = [token for token in frame if token not in set(answer)]
    if strange:
        raise SteerError(f"--answer-vocabulary: {' '.join(strange):.200}: no tokens of prompts, which ours all are")
    if lacking:
        raise SteerError(f"--answer-embedding: has no rows for {' '.join(lacking)}, which every answer needs")
    return tuple(dict.fromkeys((*frame, *answer, *prompt)))


def _config(
    tensors: Mapping[str, Tensor], stacks: Stacks, options: StateDictOptions, tokens: tuple[int, int], place: str
) -> ModelConfig:
    width = tensors[options.prompt_embedding].shape[1]
    if options.heads < 1 or width % options.heads:
        raise SteerError(f"--heads: {width} features cannot be divided among {options.heads} heads")
    inner = tensors.get(f"{stacks.encoder}layers.0.linear1.weight")
    if inner is None:
        raise SteerError(f"{place}: 1 missing tensors: {stacks.encoder}layers.0.linear1.weight")
    return make_config(
        place, encoder_layers=stacks.encoder_layers, decoder_layers=stacks.decoder_layers, heads=options.heads,
        d_model=width, d_head=width // options.heads, d_ff=len(inner), max_length=options.max_length,
        vocabulary=tokens[0], answers=tokens[1] if tokens[1] < tokens[0] else 0, activation=options.activation,
    )  # fmt: skip


def _check_tensors(tensors: Mapping[str, Tensor], expected: dict[str, str], config: ModelConfig, place: str) -> None:
    """Raise on missing and on extra tensors, except a table of sinusoids, which the plain model computes itself."""
    left = {key: tensor for key, tensor in tensors.items() if key in expected or not _is_table(tensor, config.d_model)}
    compare_tensors(describe_tensors(left), expected, place)


def _is_table(tensor: Tensor, width: int) -> bool:
    return tensor.ndim > 1 and is_position_table(tensor, width)
