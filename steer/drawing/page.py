"""One HTML page with everything in it: the table of claims and every figure. No network, no scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from steer.base.files import write_atomically
from steer.base.version import __version__
from steer.experiments.many import Outcome
from steer.paper.verdicts import AS, DIFFERS, FULL, OPEN, tally

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; vertical-align: top; padding: .35rem .6rem }
th { border-bottom: 2px solid #222 } td { border-bottom: 1px solid #ddd } td:first-child { white-space: nowrap }
.same { border-left: .4rem solid #0173b2 } .other { border-left: .4rem solid #de8f05 }
.open { border-left: .4rem solid #cc78bc } .rule { color: #555; font-size: 90% }
.none { border-left: .4rem solid #949494 } figure { margin: 2.5rem 0 } figcaption { margin-bottom: .6rem }
img { max-width: 100%; height: auto } code { font-size: 90% }
"""


KINDS = {AS: "same", DIFFERS: "other", OPEN: "open"}


def write_index(checkpoint: str, claims: Sequence[dict[str, Any]], outcomes: Sequence[Outcome], path: Path) -> None:
    title = f"The paper's figures and claims on {checkpoint}"
    quick = next((f"<p><b>A {escape(c['status'])}.</b></p>" for c in claims if c["status"] != FULL), "")
    parts = [f"<h1>{escape(title)}</h1>", quick, _lead(claims), _table(claims), *map(_figure, outcomes)]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = "\n".join([*parts, f"<footer><p>steer {escape(__version__)}</p></footer>"])
    write_atomically(path, f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n')


def _lead(claims: Sequence[dict[str, Any]]) -> str:
    told = f"{len(claims)} claims: {tally(claims)}."
    how = "Intervals are 95 %, by drawing episodes anew. Verdicts follow from the numbers by the rule beside them."
    return f"<p>{told} {how}</p>"


def _table(claims: Sequence[dict[str, Any]]) -> str:
    names = ("figure", "claim", "paper", "here", "rule", "verdict", "recipe")
    titles = ("Fig.", "claim", "in the paper", "this checkpoint", "rule: as in the paper if", "verdict", "recipe")
    head = "".join(f"<th>{title}</th>" for title in titles)
    lines = []
    for claim in claims:
        cells = "".join(f'<td class="{name}">{escape(str(claim[name]))}</td>' for name in names)
        lines.append(f'<tr class="{_kind(claim)}">{cells}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _kind(claim: dict[str, Any]) -> str:
    verdict = claim["verdict"]
    return next((name for kind, name in KINDS.items() if verdict.startswith(kind)), "none")


def _figure(outcome: Outcome) -> str:
    if outcome.result is None:
        faults = "<br>".join(escape(fault) for fault in outcome.faults)
        return f"<figure><figcaption><b>{escape(outcome.name)}</b>: not shown<br>{faults}</figcaption></figure>"
    told = outcome.result.metadata
    caption = f"<b>{escape(outcome.name)}</b>: {escape(told['recipe']['description'])}"
    images = [_image(picture, f"{outcome.name}: {told['recipe']['description']}") for picture in outcome.pictures]
    return f'<figure id="{escape(outcome.name)}"><figcaption>{caption}</figcaption>{"".join(images)}</figure>'


def _image(picture: Path, text: str) -> str:
    from struct import unpack

    data = picture.read_bytes()
    (width,) = unpack(">I", data[16:20])  # of the PNG, at 300 dots an inch; the page shows it at 144
    shown = b64encode(data).decode()
    return f'<img src="data:image/png;base64,{shown}" alt="{escape(text)}" width="{round(width * 144 / 300)}">'
