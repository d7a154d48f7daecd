"""exact-match, token-accuracy: scores of answers, from logits (teacher-forced) or from tokens that the model wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums
from steer.measures.setting import Counted, Setting
from steer.results.details import Detail, Transcript
from steer.results.rows import Labels
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading

EXAMPLES = 5  # answers that are kept to be read


class AnswerMeasure(Measure):
    """`exact-match`: the whole answer is right. `token-accuracy`: each next token is, given those before it."""

    figures: ClassVar[Mapping[str, str]] = {"rates": "exact-match", "story": "exact-match"}
    name: Literal["exact-match", "token-accuracy"]
    against: Annotated[
        Literal["answer", "counterfactual", "neither"], Field(description="neither: any answer but those two")
    ] = "answer"
    decoding: Annotated[
        Literal["greedy", "forced"], Field(description="the model's own tokens are fed back, or the right ones")
    ] = "forced"

    @property
    def decodes(self) -> bool:
        return self.decoding == "greedy"

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        if self.name == "token-accuracy" and self.decoding == "greedy":
            text = "token-accuracy is of next tokens given the right ones: use decoding: forced"
            names.fault((*key, "decoding"), text)
        if self.against != "answer" and self.decoding == "forced":
            text = "a counterfactual answer must be the model's own: use exact-match with decoding: greedy"
            names.fault((*key, "decoding"), text)
        logits = (names.layout.logits,)
        return Reads(logits, logits, ((self.name, self.against, self.decoding),))

    def sums(self, setting: Setting) -> Sums:
        return Answers(setting, self)


class Answers(Counted):
    gathers = ("book", "transcripts")

    def __init__(self, setting: Setting, measure: AnswerMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        self.transcripts: dict[tuple[str, int], Transcript] = {}  # (condition, episode)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        if self.measure.decoding == "forced":
            target = self.setting.target(batch, self.measure.against)
            model = self.setting.model
            logits = batch.at(ANSWER, values[model.layout.logits])
            self._put(batch, condition, *SCORED[self.measure.name](logits, target, model.pad))

    def add_written(self, batch: Batch, condition: str, written: Tensor) -> None:
        """Answers that the model wrote itself, with the condition's interventions on."""
        if self.measure.decoding == "forced":
            return
        against = self.measure.against
        self._remember(batch, condition, written)
        names = ("answer", "counterfactual") if against == "neither" else (against,)
        pad, end = self.setting.model.pad, self.setting.model.end
        matches = [exact_tokens(written, self.setting.target(batch, name), pad, end) for name in names]
        hits = sum((right for right, _ in matches[1:]), start=matches[0][0]).clamp(max=1)  # one text may be both
        self._put(batch, condition, 1 - hits if against == "neither" else hits, matches[0][1])

    def _remember(self, batch: Batch, condition: str, written: Tensor) -> None:
        """The first few answers, to be read; once, where several measures are of the same answers."""
        if self.measure.against != "counterfactual":
            return
        for place, row in enumerate(batch.rows):
            if row < EXAMPLES:
                said = self.setting.vocabulary.decode_answer(written[place].tolist())
                right, other = (self.setting.answers[name][row].answer for name in ("answer", "counterfactual"))
                prompt = str(self.setting.episodes[row])
                self.transcripts[condition, row] = Transcript(condition, prompt, said, right, other)

    def details(self) -> Sequence[Detail]:
        return list(self.transcripts.values())

    def _put(self, batch: Batch, condition: str, values: Tensor, counted: Tensor) -> None:
        positions = 1 if self.measure.name == "exact-match" else self.positions + 1  # the end is a step too
        labels = Labels(condition, self.measure.name, "", self.measure.against, self.measure.decoding)
        self.book.put(batch, positions, values, counted, True, labels)


def token_accuracy(logits: Tensor, target: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Is the likeliest next token the right one, at each step? The end counts, padding does not."""
    return (logits.argmax(-1) == target).double(), target != pad


def exact_match(logits: Tensor, target: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Is every step right? Greedy decoding then writes the whole answer: up to a first mistake it sees the same."""
    hits = (logits.argmax(-1) == target) | (target == pad)
    right = hits.all(-1, keepdim=True)
    return right.double(), right.new_ones(right.shape)


def exact_tokens(written: Tensor, target: Tensor, pad: int, end: int | None) -> tuple[Tensor, Tensor]:
    """Do the written tokens equal the target? The two may be padded to different lengths.

    The end closes an answer; where nothing does, what is written behind as many tokens as it has is not looked at.
    """
    from torch.nn.functional import pad as padded

    width = max(written.shape[1], target.shape[1])
    one, two = (padded(t, (0, width - t.shape[1]), value=pad) for t in (written, target))
    if end is None:
        right = ((one == two) | (two == pad)).all(-1, keepdim=True)
    else:
        right = (one == two).all(-1, keepdim=True) & (written == end).any(-1, keepdim=True)
    return right.double(), right.new_ones(right.shape)


SCORED = {"exact-match": exact_match, "token-accuracy": token_accuracy}
