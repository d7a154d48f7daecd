"""The sizes of a model: pure data, no torch, so that recipes can be checked without loading one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator
from typing_extensions import Self

Size = Annotated[int, Field(ge=1, le=4096)]
MOST = 500_000_000  # weights: larger sizes are taken for a mistake


@dataclass(frozen=True)
class ModelConfig:
    """The defaults are the paper's appendix. `position_scale` multiplies the sinusoids (1 is the standard table)."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    encoder_layers: Annotated[int, Field(ge=1, le=32)] = 2
    decoder_layers: Annotated[int, Field(ge=1, le=32)] = 2
    heads: Annotated[int, Field(ge=1, le=64)] = 8
    d_model: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] = 128
    d_head: Size = 16
    d_ff: Size = 512
    dropout: Annotated[float, Field(ge=0, le=0.9)] = 0.1
    position_scale: Annotated[float, Field(gt=0, le=1_000)] = 1.0
    max_length: Size = 64
    vocabulary: Annotated[int, Field(ge=4, le=1_000_000)] = 20
    answers: Annotated[int, Field(ge=0, le=1_000_000)] = (
        0  # tokens that answers may use, from the first; 0: all of them
    )
    activation: Literal["gelu", "relu"] = "gelu"

    @property
    def size(self) -> str:
        """In words: `2+2 layers, 8 heads of 16`."""
        return f"{self.encoder_layers}+{self.decoder_layers} layers, {self.heads} heads of {self.d_head}"

    @property
    def answer_tokens(self) -> int:
        """How many tokens the decoder reads and says."""
        return self.answers or self.vocabulary

    @property
    def weights(self) -> int:
        """How many numbers the matrices of all layers hold."""
        attention, mlp = 4 * self.heads * self.d_head * self.d_model, 2 * self.d_ff * self.d_model
        return self.encoder_layers * (attention + mlp) + self.decoder_layers * (2 * attention + mlp)

    @model_validator(mode="after")
    def _of_sizes_that_fit(self) -> Self:
        if not 4 <= self.answer_tokens <= self.vocabulary:
            raise ValueError(f"answers: {self.answers} tokens of {self.vocabulary}; from 4 to all of them (0)")
        if self.weights > MOST:
            raise ValueError(f"these sizes make {self.weights:,} weights; at most {MOST:,} are allowed")
        return self
