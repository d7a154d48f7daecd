"""One example as it stands in a file: text, and ranges of its characters. It depends on no tokenizer."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from steer.base.yaml import Strict

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=1_000_000)]


def _text_or_id(value: object) -> object:
    """Refuse everything else, with one message."""
    if (isinstance(value, str) and value) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueError("must be a text, or the id of one token")


Said: TypeAlias = Annotated[str | int, PlainValidator(_text_or_id)]  # an id is of one model's tokenizer
Range: TypeAlias = tuple[int, int]  # characters of the prompt, from the first up to, not including, the second


class Pair(Strict):
    """A prompt and, if it is known, its answer. A prompt without one can lend its activations, but cannot be scored."""

    prompt: Text
    answer: Said | None = None


class Line(Strict):
    prompt: Text
    answer: Said
    wrong: Annotated[tuple[Said, ...], Field(description="wrong answers, with which the right one is compared")] = ()
    counterparts: Annotated[
        dict[str, Pair], Field(description="by name: the prompt with one thing changed", default_factory=dict)
    ]
    spans: Annotated[
        dict[str, Range], Field(description="by name: a range of the prompt's characters", default_factory=dict)
    ]
    labels: Annotated[dict[str, str | int], Field(description="span -> what it stands for", default_factory=dict)]
    split: str = ""

    @field_validator("wrong", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return [value] if isinstance(value, str | int) else value

    @field_validator("spans")
    @classmethod
    def _inside(cls, spans: dict[str, Range], info: ValidationInfo) -> dict[str, Range]:
        length = len(info.data.get("prompt", ""))
        for name, (start, end) in spans.items():
            if length and not 0 <= start < end <= length:
                raise ValueError(f"{name!r} is [{start}, {end}], the prompt has {length} characters")
        return spans

    @field_validator("labels")
    @classmethod
    def _of_spans(cls, labels: dict[str, str | int], info: ValidationInfo) -> dict[str, str | int]:
        strays = sorted(set(labels) - set(info.data.get("spans", labels)))
        if strays:
            raise ValueError(f"{strays[0]!r} is not a span of this line")
        return labels
