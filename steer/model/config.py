"""The sizes of a model: pure data, no torch, so that recipes can be checked without loading one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from steer.task.vocabulary import TOKENS

Size = Annotated[int, Field(ge=1, le=4096)]


@dataclass(frozen=True)
class ModelConfig:
    """The defaults are the paper's appendix. `position_scale` multiplies the sinusoids (1 is the standard table)."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    encoder_layers: Annotated[int, Field(ge=1, le=64)] = 2
    decoder_layers: Annotated[int, Field(ge=1, le=64)] = 2
    heads: Annotated[int, Field(ge=1, le=256)] = 8
    d_model: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] = 128
    d_head: Size = 16
    d_ff: Size = 512
    dropout: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    position_scale: Annotated[float, Field(gt=0)] = 1.0
    max_length: Size = 64
    vocabulary: Annotated[int, Field(ge=len(TOKENS), le=len(TOKENS))] = len(TOKENS)
