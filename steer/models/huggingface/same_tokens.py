"""Are tokens cut here as transformers cuts them, and framed by the same ones?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steer.models.huggingface.findings import Finding
from steer.models.huggingface.place import Place
from steer.models.huggingface.tokenizer import ModelTokenizer


def same_tokens(place: Place, tokenizer: ModelTokenizer, texts: Sequence[str]) -> Finding | None:
    """Each text's ids with all that stands around it; None where a folder does not say how transformers reads them."""
    theirs = _theirs(place) if place.path("tokenizer_config.json") else None
    if theirs is None:
        return None
    ids = tokenizer.cutter.ids()
    before, after = tokenizer.cutter.frame()
    wrong = ""
    for text in texts:
        own = [*before, *(ids[piece.token] for piece in tokenizer.cutter.cut(text)), *after]
        if own != list(theirs(text)["input_ids"]):
            wrong = wrong or f"{text!r:.60}"
    words = "texts are cut and framed as transformers does it"
    return Finding("tokens", words, float(bool(wrong)), 0.0, wrong, of=len(texts))


def _theirs(place: Place) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(place.folder), trust_remote_code=False, local_files_only=True)
    except Exception:  # a bare `tokenizer.json` says enough here, and not enough for transformers
        return None
