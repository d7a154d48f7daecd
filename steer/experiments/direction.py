"""Finding a direction at a site: from two groups of labelled tokens, from counterparts, by principal components, by a
linear probe, or out of a sparse autoencoder's folder.

`find_direction` is the table of contents. Probes are fitted on some examples and judged on others, beside a probe for
labels that were exchanged between examples: accuracy alone does not say that anything is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.nodes import BETWEEN_TOKENS, Site
from steer.base.errors import ConfigError, KeyedError, SteerError, unknown
from steer.base.files import read_file
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.measures.explained import exchanged, of_one_layout
from steer.measures.representation import RSquaredMeasure
from steer.measures.setting import Setting
from steer.models.subject import Subject
from steer.plan.plan import CLEAN, COUNTERPART, Plan, Run, Stage
from steer.results.directions import About, Direction, Floats
from steer.tasks.task import Example

Ints = NDArray[np.int64]
TRAINED = 0.7  # of the examples, for a probe; the others judge it


@dataclass(frozen=True)
class Wanted:
    """What a direction is to be found from."""

    site: str
    way: Literal["difference", "principal", "probe"]
    label: str = ""
    tokens: str = ""  # which tokens carry the label; empty: the first that the task names
    values: tuple[int, int] | None = None  # of the label, for a difference; None: its lowest and highest
    variable: str = ""  # difference: counterpart minus example, instead of two values of a label
    rows: int = 1  # principal components
    seed: int = 0


@dataclass(frozen=True)
class Points:
    """Activations at labelled tokens."""

    values: Floats  # N D
    labels: Ints
    owners: Ints  # the example of each


def find_direction(subject: Subject, wanted: Wanted, examples: Sequence[Example]) -> Direction:
    site = subject.names.site(wanted.site)
    if site.port in (*BETWEEN_TOKENS, "out"):
        raise SteerError(f"--site: {site} has no features of its own to edit; give q, k, v or z, an MLP or a stream")
    if wanted.variable:
        rows, words, scores = _between_worlds(subject, wanted, site, examples)
    else:
        points = labelled_points(subject, wanted, examples)
        rows, words, scores = _from_points(points, wanted)
    weights = subject.weights
    about = About(
        way=wanted.way, site=str(site), words=words, checkpoint=weights.name, sha256=weights.sha256,
        task=subject.task.name, examples=len(examples), seed=wanted.seed, scores=scores,
    )  # fmt: skip
    return Direction(rows, about)


Rows = tuple[Floats, str, dict[str, float]]  # rows, what was compared, scores


def _from_points(points: Points, wanted: Wanted) -> Rows:
    match wanted.way:
        case "difference":
            return _difference(points, wanted)
        case "principal":
            return _principal(points, wanted)
        case "probe":
            return _probe(points, wanted)


def labelled_points(subject: Subject, wanted: Wanted, examples: Sequence[Example]) -> Points:
    """What a site holds at the tokens that carry a label."""
    labels = subject.task.labels
    if wanted.label not in labels:
        raise SteerError(f"--label: {unknown('label', wanted.label, list(labels))}")
    tokens = wanted.tokens or next(iter(labels[wanted.label]))
    measure = RSquaredMeasure(name="r-squared", site=wanted.site, label=wanted.label, tokens=tokens)
    names = KeyedNames(subject.names)
    reads = measure.reads(names, subject.task, ()).all
    if names.faults:
        raise KeyedError(names.faults)
    sums = measure.sums(Setting(subject, examples, (measure,), wanted.seed))
    plan = Plan((Stage((Run(CLEAN, (), reads, CLEAN),)),))
    for ran in Session(Engine(subject.model), plan, Inputs(examples)):
        sums.add(ran.batch, CLEAN, ran.values)
    return Points(*sums.points(CLEAN))  # type: ignore[attr-defined]


def _difference(points: Points, wanted: Wanted) -> Rows:
    low, high = wanted.values or (int(points.labels.min()), int(points.labels.max()))
    groups = [points.values[points.labels == value] for value in (low, high)]
    if low == high or not all(len(group) for group in groups):
        there = ", ".join(map(str, np.unique(points.labels)))
        raise SteerError(f"--values: two values of {wanted.label} that occur are needed; there are: {there}")
    row = groups[1].mean(0) - groups[0].mean(0)
    return row[None], f"{wanted.label} {high} minus {low}", {"norm": float(np.linalg.norm(row))}


def _principal(points: Points, wanted: Wanted) -> Rows:
    from sklearn.decomposition import PCA

    most = min(points.values.shape)
    if not 1 <= wanted.rows <= most:
        raise SteerError(f"--rows: from 1 to {most} components can be had, not {wanted.rows}")
    fitted = PCA(n_components=wanted.rows, svd_solver="full").fit(points.values)
    shares = {f"share {n + 1}": float(share) for n, share in enumerate(fitted.explained_variance_ratio_)}
    return np.asarray(fitted.components_), f"first {wanted.rows} principal components", shares


def _probe(points: Points, wanted: Wanted) -> Rows:
    """Rows of a logistic regression, one for two values of the label, else one for each."""
    rng = np.random.default_rng(wanted.seed)
    owners = rng.permutation(np.unique(points.owners))
    if len(owners) < 4 or len(np.unique(points.labels)) < 2:
        raise SteerError(f"a probe for {wanted.label} needs at least four examples and two values of the label")
    train = np.isin(points.owners, owners[: round(TRAINED * len(owners))])
    rows, accuracy = _fitted(points.values, points.labels, train)
    _, number = np.unique(points.owners, return_inverse=True)
    shuffled = exchanged(points.labels, of_one_layout(number), rng)
    _, null = _fitted(points.values, shuffled, train)
    rate = float(np.mean(points.labels[~train] == _most_common(points.labels[train])))
    scores = {"held-out accuracy": accuracy, "labels exchanged": null, "most common label": rate}
    return rows, f"linear probe for {wanted.label}", scores


def _fitted(values: Floats, labels: Ints, train: NDArray[np.bool_]) -> tuple[Floats, float]:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(max_iter=2_000).fit(values[train], labels[train])
    return np.asarray(fitted.coef_, dtype=np.float64), float(fitted.score(values[~train], labels[~train]))


def _most_common(labels: Ints) -> int:
    values, counts = np.unique(labels, return_counts=True)
    return int(values[counts.argmax()])


@torch.no_grad()
def _between_worlds(subject: Subject, wanted: Wanted, site: Site, examples: Sequence[Example]) -> Rows:
    """The mean over real tokens of the counterpart's value minus the example's."""
    if wanted.way != "difference":
        raise SteerError(f"--variable: counterparts give a difference, no {wanted.way}")
    if wanted.variable not in subject.task.variables:
        raise SteerError(f"--variable: {unknown('variable', wanted.variable, subject.task.variables)}")
    pairs = [(one, other) for one in examples if (other := subject.task.counterpart(one, wanted.variable)) is not None]
    pairs = [(one, other) for one, other in pairs if len(one.prompt) == len(other.prompt)]
    if not pairs:
        raise SteerError(f"--variable: no example has a counterpart {wanted.variable!r} of the same length")
    inputs = Inputs([one for one, _ in pairs], [other for _, other in pairs])
    runs = (Run(CLEAN, (), (site,), CLEAN), Run(COUNTERPART, (), (site,), COUNTERPART, input=COUNTERPART))
    session = Session(Engine(subject.model), Plan((Stage(runs),)), inputs)
    sums: dict[str, Floats] = {CLEAN: np.zeros(()), COUNTERPART: np.zeros(())}
    count = 0
    for ran in session:
        real = ran.batch.real[subject.model.layout.sequence(site)]
        sums[ran.run.input] = sums[ran.run.input] + ran.values[site][real].double().sum(0).numpy()
        count += int(real.sum()) * (ran.run.input == CLEAN)
    row = np.asarray(sums[COUNTERPART] - sums[CLEAN], dtype=np.float64) / count
    return row[None], f"counterpart ({wanted.variable}) minus example", {"norm": float(np.linalg.norm(row))}


def from_sae(folder: Path, row: int) -> Direction:
    """One decoder row of a sparse autoencoder's folder, as SAELens writes it (cfg.json, sae_weights.safetensors).

    Its site is the folder's own word for it, a hook of TransformerLens: recipes use it there and nowhere else.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        config = json.loads(read_file(folder / "cfg.json", 1_000_000, ConfigError))
        decoder = load(read_file(folder / "sae_weights.safetensors", 8_000_000_000, ConfigError))["W_dec"]
        meta = {**config, **(config.get("metadata") or {})}
        shape = (meta.get("d_sae", len(decoder)), meta.get("d_in", decoder.shape[-1]))
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{folder}: is not a folder of a sparse autoencoder as SAELens writes it") from error
    if tuple(decoder.shape) != shape:
        raise ConfigError(f"{folder}: W_dec has the shape {tuple(decoder.shape)}, cfg.json says {shape}")
    if not 0 <= row < len(decoder):
        raise ConfigError(f"{folder}: has features 0 to {len(decoder) - 1:,}, not {row}")
    hook = str(meta.get("hook_name") or "")
    words = f"feature {row} of {folder.name} ({meta.get('model_name', '?')}, {hook or '?'})"
    return Direction(decoder[row : row + 1].double().numpy(), About(way="sae", site=hook, words=words, scores={}))
