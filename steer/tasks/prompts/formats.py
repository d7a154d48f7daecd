"""Formats of other tools: their columns as ours. Columns that we do not use are ignored.

`eap-ig`: EAP-IG's CSV. `auto-circuit`: its JSON. `mib`: MIB's data with counterfactual columns. `causalab`: its tables.
A counterpart has an answer only if the file states it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from steer.base.errors import SteerError, nearest
from steer.base.json import Json

FormatName: TypeAlias = Literal["steer", "eap-ig", "auto-circuit", "mib", "causalab"]
Row: TypeAlias = Mapping[str, Any]
COUNTERFACTUAL = "_counterfactual"
NESTED = {  # columns whose cells hold JSON where a table has no lists and objects of its own
    "wrong", "counterparts", "spans", "labels", "answers", "wrong_answers", "choices", "counterfactual_inputs",
}  # fmt: skip


def is_nested(column: str) -> bool:
    return column in NESTED or column.startswith("spans.") or column.endswith(COUNTERFACTUAL)


def _need(row: Row, *columns: str) -> list[Any]:
    """The values of these columns, or a fault that names the nearest one."""
    missing = [column for column in columns if row.get(column) is None]
    if missing:
        close = nearest(missing[0], row)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(map(str, row)) or 'none'}"
        raise SteerError(f"has no column {missing[0]!r}; {hint}")
    return [row[column] for column in columns]


def _eap_ig(row: Row) -> Json:
    clean, _ = _need(row, "clean", "corrupted")
    others = {name: row[name] for name in ("corrupted", "corrupted_hard") if row.get(name)}
    made = {"prompt": clean, "counterparts": {name: {"prompt": text} for name, text in others.items()}}
    if row.get("label") is not None:
        return made | {"answer": str(row["label"])}  # a text, also where it is a year
    right, wrong = _need(row, "correct_idx", "incorrect_idx")
    return made | {"answer": _number(right), "wrong": [_number(wrong)]}


def _number(text: Any) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        raise SteerError(f"a token's id must be a whole number, not {text!r:.40}") from None


def _auto_circuit(row: Row) -> Json:
    clean, corrupt, answers = _need(row, "clean", "corrupt", "answers")
    if not isinstance(answers, list) or len(answers) != 1:
        raise SteerError("answers: one right answer is needed, in a list")
    counterparts = {"corrupt": {"prompt": corrupt}}
    return {
        "prompt": clean, "answer": answers[0], "wrong": row.get("wrong_answers", []), "counterparts": counterparts,
    }  # fmt: skip


def _mib(row: Row) -> Json:
    others = {name.removesuffix(COUNTERFACTUAL): value for name, value in row.items() if name.endswith(COUNTERFACTUAL)}
    answer, wrong = _chosen(row)
    counterparts = {name: _counterfactual(name, value) for name, value in others.items() if value is not None}
    return {"prompt": _need(row, "prompt")[0], "answer": answer, "wrong": wrong, "counterparts": counterparts}


def _counterfactual(name: str, value: Any) -> Json:
    if not isinstance(value, dict):
        raise SteerError(f"{name}{COUNTERFACTUAL}: must be a record with prompt, choices and answerKey")
    return {"prompt": _need(value, "prompt")[0], "answer": _chosen(value)[0]}


def _chosen(row: Row) -> tuple[Any, list[Any]]:
    """The answer among the choices, and the others; `label` is the answer where there are no choices."""
    choices = row.get("choices")
    labels = choices.get("label") if isinstance(choices, dict) else choices
    if not labels:
        return _need(row, "label")[0], []
    (key,) = _need(row, "answerKey")
    if isinstance(key, int) and 0 <= key < len(labels):
        key = labels[key]
    if key not in labels:
        raise SteerError(f"answerKey: {key!r:.40} is not among the choices")
    return key, [label for label in labels if label != key]


def _causalab(row: Row) -> Json:
    prompt, answer = _need(row, "input", "base_answer")
    others, theirs = row.get("counterfactual_inputs") or [], row.get("cf_answer")
    answers = theirs if isinstance(theirs, list) else [theirs]
    names = [f"counterfactual-{number}" if number > 1 else "counterfactual" for number in range(1, len(others) + 1)]
    known = [*answers, *[None] * len(others)]
    pairs = {name: {"prompt": o, "answer": a} for name, o, a in zip(names, others, known, strict=False)}
    return {"prompt": prompt, "answer": answer, "counterparts": pairs, "split": row.get("split") or ""}


FORMATS: Mapping[FormatName, Callable[[Row], Json]] = {
    "steer": dict, "eap-ig": _eap_ig, "auto-circuit": _auto_circuit, "mib": _mib, "causalab": _causalab,
}  # fmt: skip


def named(file: Path | str) -> tuple[Path, FormatName]:
    """`mib:FILE` is a file with the columns of MIB, FILE one with ours."""
    word, _, rest = str(file).partition(":")
    form = next((name for name in FORMATS if name == word and rest), None)
    return (Path(rest), form) if form else (Path(file), "steer")


def recognised(row: Row) -> FormatName | None:
    """Whose columns a row has that is none of ours."""
    for name in [name for name in FORMATS if name != "steer"]:
        try:
            FORMATS[name](row)
        except SteerError:
            continue
        return name
    return None
