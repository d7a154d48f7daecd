"""The family `hf`: Hugging Face models in folders and on the Hub. No torch until one is loaded."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from steer.anatomy.names import Names
from steer.base.shipped import is_shipped
from steer.models.huggingface.layout import layout_of, most_tokens, padding, row_of
from steer.models.huggingface.place import Place, read_config, resolve
from steer.models.huggingface.steps import BlockSteps
from steer.models.huggingface.tokenizer import ModelTokenizer, cutter_of

if TYPE_CHECKING:
    from steer.models.huggingface.subject import HuggingFaceSubject


class HuggingFaceFamily:
    def names(self, place: str) -> Names:
        return Names(layout_of(read_config(resolve(place)), place))

    def steps(self, place: str) -> BlockSteps:
        return BlockSteps(self.names(place).layout)

    def task(self, place: str) -> str:
        return "prompts"

    def tokenizer(self, place: str) -> ModelTokenizer:
        return tokenizer_of(resolve(place))

    def short_name(self, place: str) -> str:
        """For folders of results: a name, and the commit or a sign of the folder that it is in."""
        resolved = resolve(place)
        if resolved.commit:
            return f"{place.replace('/', '_').partition('@')[0]}-{resolved.commit[:8]}"
        folder = resolved.folder.resolve()
        if is_shipped(folder):
            return folder.name
        return f"{folder.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"

    def load(self, place: str, device: str, dtype: str) -> HuggingFaceSubject:
        from steer.models.huggingface.load import load_subject

        return load_subject(resolve(place), device, dtype)


FAMILY = HuggingFaceFamily()


def tokenizer_of(place: Place) -> ModelTokenizer:
    config = read_config(place)
    row = row_of(config, place.name)
    pad, _, _ = padding(row, config, place.name)
    cutter = cutter_of(place)
    size = config.get("vocab_size")
    size = size if type(size) is int and 0 < size < 1 << 24 else 1 + max(cutter.ids().values())
    return ModelTokenizer(place.name, cutter, size, row.encoder is None, most_tokens(row, config), pad)
