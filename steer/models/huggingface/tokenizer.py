"""How a Hugging Face model cuts texts into tokens: by its `tokenizer.json`, read without transformers or torch.

Tokens go by the tokenizer's own names (`Ġthe`, `▁the`). What stands around a text (a start, an end) is not part of its
pieces; `frame` says which tokens these are. In one sequence an answer is cut together with the prompt that it follows,
because a blank before a word belongs to the word's token.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from steer.base.errors import CheckpointError, PromptError
from steer.base.log import LOG
from steer.models.huggingface.place import INSTALL, Place
from steer.tasks.text import Piece

FILE = "tokenizer.json"


class Cutter(Protocol):
    """What is asked of a tokenizer, whichever library it is from."""

    def cut(self, text: str, answer: bool = False) -> Sequence[Piece]: ...
    def frame(self, answer: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]: ...  # ids before and after a text
    def ids(self) -> dict[str, int]: ...
    @property
    def stranger(self) -> str | None: ...  # the token that stands for every unknown word, if there is one


@dataclass(frozen=True)
class FastCutter:
    """Of the library `tokenizers`: the same for prompts and answers."""

    tokenizer: Any

    def cut(self, text: str, answer: bool = False) -> Sequence[Piece]:
        made = self.tokenizer.encode(text, add_special_tokens=False)
        return [Piece(token, *ends) for token, ends in zip(made.tokens, made.offsets, strict=True)]

    def frame(self, answer: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
        made = self.tokenizer.encode("a")
        own = [place for place, special in enumerate(made.special_tokens_mask) if not special]
        return tuple(made.ids[: own[0]]), tuple(made.ids[own[-1] + 1 :])

    def ids(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.tokenizer.get_vocab(with_added_tokens=True)
        return vocabulary

    @property
    def stranger(self) -> str | None:
        return getattr(self.tokenizer.model, "unk_token", None)


@dataclass(frozen=True)
class SlowCutter:
    """Of `transformers`, for models without a `tokenizer.json` (Marian): it may cut answers in another way."""

    tokenizer: Any

    def cut(self, text: str, answer: bool = False) -> Sequence[Piece]:
        key = "text_target" if answer else "text"
        ids = self.tokenizer(**{key: text}, add_special_tokens=False)["input_ids"]
        return aligned(text, self.tokenizer.convert_ids_to_tokens(ids))

    def frame(self, answer: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
        bare, framed = ([*self.tokenizer("a", add_special_tokens=more)["input_ids"]] for more in (False, True))
        start = next(at for at in range(len(framed)) if framed[at : at + len(bare)] == bare)
        return tuple(framed[:start]), tuple(framed[start + len(bare) :])

    def ids(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        return vocabulary

    @property
    def stranger(self) -> str | None:
        return None if self.tokenizer.unk_token is None else str(self.tokenizer.unk_token)


def aligned(text: str, tokens: Sequence[str]) -> list[Piece]:
    """Each token at the next place of the text where its letters stand; of letters that are not there, between."""
    pieces, at = [], 0
    for token in tokens:
        letters = token.replace("\u2581", " ").strip()
        start = text.find(letters, at) if letters else at
        start, end = (at, at) if start < 0 else (start, start + len(letters))
        pieces.append(Piece(token, start, end))
        at = end
    return pieces


@dataclass(frozen=True)
class ModelTokenizer:
    """A `Tokenizer` with the model's limits: a text that is too long is at fault before any weights are read."""

    name: str
    cutter: Cutter
    size: int  # of the model's vocabulary
    one_sequence: bool  # the answer follows the prompt
    most: int  # tokens of a sequence
    pad: int  # fills the place behind an answer: no answer may hold it

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each id. Models have more rows than their tokenizer has tokens: the rest have made-up names."""
        tokens = {number: token for token, number in self.cutter.ids().items()}
        return tuple(tokens.get(number, f"<id {number}>") for number in range(self.size))

    @cached_property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What stands before and after a prompt; in one sequence nothing may stand between prompt and answer."""
        before, after = self.cutter.frame()
        return before, () if self.one_sequence else after

    def prompt(self, text: str) -> Sequence[Piece]:
        pieces = self._known(text, self.cutter.cut(text))
        length = len(pieces) + sum(map(len, self.around))
        if length > self.most:
            raise PromptError(f"prompt: {length:,} tokens; {self.name} takes {self.most:,}")
        return pieces

    def answer(self, prompt: str, text: str) -> Sequence[Piece]:
        cut = self._following(prompt, text) if self.one_sequence else self.cutter.cut(text, answer=True)
        pieces = self._known(text, cut)
        if any(piece.token == self.names[self.pad] for piece in pieces):
            raise PromptError(f"answer: holds {self.names[self.pad]!r}, which fills the place behind answers")
        length = len(pieces) + (len(self.prompt(prompt)) if self.one_sequence else 1) + len(self.around[0])
        if length > self.most:
            what = "prompt and answer" if self.one_sequence else "answer"
            raise PromptError(f"{what}: {length:,} tokens; {self.name} takes {self.most:,}")
        return pieces

    def _following(self, prompt: str, text: str) -> Sequence[Piece]:
        """What is left of both together behind the prompt's own tokens."""
        before = [piece.token for piece in self.cutter.cut(prompt)]
        for blank in ("", " ") if self._parts_at_blanks else ("",):
            pieces = self.cutter.cut(prompt + blank + text)
            if len(pieces) > len(before) and [piece.token for piece in pieces[: len(before)]] == before:
                start = len(prompt + blank)
                return [Piece(p.token, max(p.start - start, 0), max(p.end - start, 0)) for p in pieces[len(before) :]]
        raise PromptError(
            f"answer: {text!r:.40} and the end of the prompt, {prompt[-12:]!r}, become one token; a blank between them "
            "belongs to the answer"
        )

    @cached_property
    def _parts_at_blanks(self) -> bool:
        """Blanks part words and are no part of a token."""
        one, two = ([piece.token for piece in self.cutter.cut(text)] for text in ("a a", "a  a"))
        return one == two

    def _known(self, text: str, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Unknown words are a fault: the model would see one and the same token for all of them."""
        ids, stranger = self._ids, self.cutter.stranger
        words = dict.fromkeys(text[p.start : p.end] for p in pieces if p.token == stranger)
        strange = [*words, *dict.fromkeys(p.token for p in pieces if ids.get(p.token, self.size) >= self.size)]
        if strange:
            raise PromptError(*(f"the model has no token for {word!r}" for word in strange))
        return pieces

    @cached_property
    def _ids(self) -> dict[str, int]:
        return self.cutter.ids()

    def token(self, number: int) -> str:
        if not 0 <= number < self.size:
            raise PromptError(f"no token has the id {number}: there are {self.size:,}")
        return self.names[number]


def cutter_of(place: Place) -> Cutter:
    path = place.path(FILE)
    return _slow(place) if path is None else FastCutter(_read(path))


def _read(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise CheckpointError(INSTALL) from error
    try:
        made = Tokenizer.from_file(str(path))
    except Exception as error:  # whatever its reader says of a broken file
        raise CheckpointError(f"{path}: cannot be read as a tokenizer ({error!s:.100})") from error
    made.no_padding()
    made.no_truncation()
    return made


def _slow(place: Place) -> Cutter:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise CheckpointError(INSTALL) from error
    given = {"revision": place.commit} if place.repository else {"local_files_only": True}
    where = place.repository or str(place.folder)
    try:
        with warnings.catch_warnings(record=True) as said:  # Marian's recommends a library that tidies punctuation
            warnings.simplefilter("always")
            made = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **given)
        for warning in said:
            LOG.debug("%s: %s", place.name, warning.message)
        words = {token.strip("\u2581") for token in made.get_vocab()} - {"", *made.get_added_vocab()}
        if not words:  # without files, some classes make one of special tokens alone
            raise OSError("no file with its words")
    except Exception as error:  # ImportError of what it is read by, OSError, ValueError, and more
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        text = f"{place.name}: holds no tokenizer that can be read: no {FILE} ({reason[:160]})"
        raise CheckpointError(text) from error
    return SlowCutter(made)
