"""Measures that give a number for every episode and output position: attention, answers, logit attribution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Site
from steer.measures.answers import exact_match, exact_tokens, token_accuracy
from steer.measures.attention import attention_accuracy, attention_mass
from steer.measures.attribution import CONSTANT, logit_attribution
from steer.measures.setting import Setting, TallyBook
from steer.models.protocol import Batch, Reading
from steer.recipe.schema import AnswerMeasure, AttentionMeasure, AttributionMeasure
from steer.results.details import Detail, Transcript
from steer.results.rows import Labels, Row
from steer.results.tally import Floats

EXAMPLES = 5  # answers that are kept to be read
ATTENTION = {"attention-accuracy": attention_accuracy, "attention-mass": attention_mass}
ANSWERS = {"exact-match": exact_match, "token-accuracy": token_accuracy}


class Counted:
    """Rows from tallies; nothing beyond them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.book = TallyBook(len(setting.episodes))
        self.positions = setting.task.longest_answer

    def rows(self, weights: Floats) -> list[Row]:
        return self.book.rows(weights)

    def details(self) -> Sequence[Detail]:
        return ()


class Attention(Counted):
    def __init__(self, setting: Setting, measure: AttentionMeasure) -> None:
        super().__init__(setting)
        self.measure, self.heads = measure, setting.heads(measure.heads)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target = self.setting.target(batch, self.measure.against)
        for head in self.heads:
            pattern = values[Site(head, "pattern")]  # B T S
            looked = ATTENTION[self.measure.name](
                pattern, batch.tokens[self.setting.model.layout.looks_at(head)], target
            )
            labels = Labels(condition, self.measure.name, str(head), self.measure.against)
            hits = self.measure.name == "attention-accuracy"
            self.book.put(batch, self.positions, looked, self.setting.scoring.counts(target), hits, labels)


class Attribution(Counted):
    def __init__(self, setting: Setting, measure: AttributionMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        self.components = [str(node) for text in measure.components for node in setting.names.nodes(text)]
        self.writers = [node for node in setting.model.layout.nodes if setting.model.layout.reaches_logits(node)]
        self.clean: dict[int, dict[Site, Tensor]] = {}  # batch -> what the norms took their scale from in the clean run

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target = self.setting.target(batch, "answer")
        layout = self.setting.model.layout
        writes = {node: values[layout.written(node)] for node in self.writers}
        if batch.number not in self.clean:  # the clean condition comes first
            self.clean[batch.number] = {site: values[site] for site in layout.scales}
        clean = self.clean[batch.number]
        alternatives, counted = self.setting.alternatives(batch), self.setting.scoring.counts(target)
        shares = logit_attribution(self.setting.model, writes, clean, target, alternatives)
        for component in dict.fromkeys((*self.components, CONSTANT)):
            labels = Labels(condition, self.measure.name, component, unit="logit")
            self.book.put(batch, self.positions, shares[component].double(), counted, False, labels)


class Answers(Counted):
    def __init__(self, setting: Setting, measure: AnswerMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        self.transcripts: list[Transcript] = []

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        if self.measure.decoding == "forced":
            target = self.setting.target(batch, self.measure.against)
            pad = self.setting.vocabulary.pad
            self._put(
                batch, condition, *ANSWERS[self.measure.name](values[self.setting.model.layout.logits], target, pad)
            )

    def add_written(self, batch: Batch, condition: str, written: Tensor) -> None:
        """Answers that the model wrote itself, with the condition's interventions on."""
        if self.measure.decoding == "forced":
            return
        against = self.measure.against
        self._remember(batch, condition, written)
        names = ("answer", "counterfactual") if against == "neither" else (against,)
        pad, end = self.setting.vocabulary.pad, self.setting.vocabulary.end
        held = [exact_tokens(written, self.setting.target(batch, name), pad, end) for name in names]
        hits = sum((right for right, _ in held), start=torch.zeros_like(held[0][0]))
        self._put(batch, condition, 1 - hits if against == "neither" else hits, held[0][1])

    def _remember(self, batch: Batch, condition: str, written: Tensor) -> None:
        """The first few answers, to be read; once, where several measures are of the same answers."""
        if self.measure.against != "counterfactual":
            return
        for place, row in enumerate(batch.rows):
            if row < EXAMPLES:
                said = self.setting.vocabulary.decode_answer(written[place].tolist())
                right, other = (self.setting.answers[name][row].answer for name in ("answer", "counterfactual"))
                prompt = str(self.setting.episodes[row])
                self.transcripts.append(Transcript(condition, prompt, said, right, other))

    def details(self) -> Sequence[Detail]:
        return self.transcripts

    def _put(self, batch: Batch, condition: str, values: Tensor, counted: Tensor) -> None:
        positions = 1 if self.measure.name == "exact-match" else self.positions + 1  # the end is a step too
        labels = Labels(condition, self.measure.name, "", self.measure.against, self.measure.decoding)
        self.book.put(batch, positions, values, counted, True, labels)
