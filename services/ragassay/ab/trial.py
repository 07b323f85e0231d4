"""B against A: each query's figures, their averages, their differences, and whether those are chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ragassay import stats
from ragassay.ab.inputs import Judgments, Lists, read_corpus, read_judgments, read_queries, read_run, retrieve
from ragassay.ab.recipe import Recipe, read
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import listed
from ragassay.core.models import FrozenModel
from ragassay.metrics import Metric, parse
from ragassay.metrics.base import LARGEST_K
from ragassay.metrics.ranked import Ranked
from ragassay.stats import Interval

METRICS = {"recall": "recall", "mrr": "mrr", "ndcg": "ndcg_exp"}
ALPHA, SEED = 0.05, 0
DIGITS = 12  # the last bits of a sum depend on the processor
Name: TypeAlias = Literal["A", "B"]


class Figures(FrozenModel):
    """The metrics of one query, their averages, or their differences B - A; rounded to 12 decimals."""

    recall: float
    mrr: float
    ndcg: float

    def __sub__(self, other: Figures) -> Figures:
        return Figures(**{m: round(getattr(self, m) - getattr(other, m), DIGITS) for m in METRICS})


class Scored(Figures):
    """One system on one query; ``hits`` are the ids of its first k documents."""

    hits: tuple[str, ...]


class Row(FrozenModel):
    """Both systems on one query."""

    qid: str
    A: Scored
    B: Scored
    delta: Figures


class Averages(FrozenModel):
    """Means over all queries, each of which counts the same."""

    macro: Figures


class System(FrozenModel):
    """A configuration: its path as typed, the SHA-256 of its meaning, its averages."""

    config_path: str
    config_digest: str
    metrics: Averages


class Tested(FrozenModel):
    """Whether the difference B - A of a metric is chance. ``p_corrected`` takes account of the other metrics."""

    n: int
    difference: float | None
    interval: Interval
    p: float | None
    p_corrected: float | None
    significant: bool | None
    wins: int
    losses: int
    ties: int
    reason: str | None


class SignificanceTests(FrozenModel):
    """Paired randomisation tests of the differences, and their intervals, which nothing corrects."""

    test: Literal["randomisation"] = "randomisation"
    seed: int = SEED
    alpha: float = ALPHA
    correction: Literal["holm"] = "holm"
    metrics: dict[str, Tested]


class Trial(FrozenModel):
    """The document. Digests are SHA-256 in hex, null where there is no such file; rows are in the queries' order."""

    schema_version: Literal[1] = 1
    k: int
    corpus_digest: str | None
    queries_digest: str
    qrels_digest: str
    run_digests: dict[Name, str | None]
    definitions: dict[str, str]
    systems: dict[Name, System]
    delta: Averages
    significance: SignificanceTests
    warnings: tuple[str, ...]
    per_query: tuple[Row, ...]


@dataclass(frozen=True)
class Arm:
    """One configuration and, for each query, the first k documents."""

    path: str
    recipe: Recipe
    digest: str
    run_digest: str | None
    lists: Lists


@dataclass(frozen=True)
class TrialRun:
    """The document, and what traces hold beyond it."""

    trial: Trial
    arms: Mapping[Name, Arm]
    judgments: Judgments


def run(
    queries: Path, judgments: Path, config_a: str, config_b: str, *, k: int = 10, corpus: Path | None = None
) -> TrialRun:
    """Rank documents for the queries as both configurations say, and compare B with A.

    Metrics are the registered ones at ``k``; relevant is a grade above 0. ``corpus`` goes before the one that the
    configurations name. Raises BadInput and its kin for anything that does not fit, NotFound for a missing file.
    """
    if not 1 <= k <= LARGEST_K:
        raise BadSettings(f"k must be a whole number from 1 to {LARGEST_K:,}, not {k}")
    metrics = {name: parse(f"{family}@{k}") for name, family in METRICS.items()}
    recipes: dict[Name, tuple[str, Recipe, str]] = {"A": (config_a, *read(config_a)), "B": (config_b, *read(config_b))}
    passages, corpus_digest = read_corpus(corpus, [recipe.corpus for _, recipe, _ in recipes.values()])
    known = {passage.id for passage in passages.passages} if passages else None
    asked, queries_digest = read_queries(queries)
    graded, qrels_digest = read_judgments(judgments, asked, known)
    arms: dict[Name, Arm] = {}
    for name, (typed, recipe, digest) in recipes.items():
        if recipe.run:
            lists, run_digest = read_run(recipe.run, asked, known)
        elif passages and recipe.retrieval:
            lists, run_digest = retrieve(recipe.retrieval, passages, asked, k), None
        else:
            raise BadSettings("there is no corpus to retrieve from", where=typed, hint="give --corpus FILE")
        arms[name] = Arm(typed, recipe, digest, run_digest, {qid: lists.get(qid, ())[:k] for qid in asked})
    scored = {name: _scored(arm.lists, graded, metrics, k) for name, arm in arms.items()}
    rows = tuple(Row(qid=q, A=a, B=b, delta=b - a) for q, a, b in zip(asked, scored["A"], scored["B"], strict=True))
    macro = {name: _means(figures) for name, figures in scored.items()}
    trial = Trial(
        k=k,
        corpus_digest=corpus_digest,
        queries_digest=queries_digest,
        qrels_digest=qrels_digest,
        run_digests={name: arm.run_digest for name, arm in arms.items()},
        definitions={name: f"{metric.name}: {metric.description}" for name, metric in metrics.items()},
        systems={
            name: System(config_path=arm.path, config_digest=arm.digest, metrics=Averages(macro=macro[name]))
            for name, arm in arms.items()
        },
        delta=Averages(macro=macro["B"] - macro["A"]),
        significance=SignificanceTests(metrics=_tested(rows)),
        warnings=tuple(_warnings(graded, arms)),
        per_query=rows,
    )
    return TrialRun(trial, arms, graded)


def _scored(lists: Lists, judgments: Judgments, metrics: Mapping[str, Metric], k: int) -> list[Scored]:
    """Figures of every query, in order."""
    hits = [tuple(ranking.id for ranking in ranked) for ranked in lists.values()]
    ranked = Ranked.build(hits, [judgments[qid] for qid in lists])
    columns = {name: metric.function(ranked, k=k) for name, metric in metrics.items()}
    return [
        Scored(hits=ids, **{name: round(float(column[n]), DIGITS) for name, column in columns.items()})
        for n, ids in enumerate(hits)
    ]


def _means(rows: Sequence[Figures]) -> Figures:
    return Figures(**{name: round(math.fsum(getattr(r, name) for r in rows) / len(rows), DIGITS) for name in METRICS})


def _tested(rows: Sequence[Row]) -> dict[str, Tested]:
    tests = {
        name: stats.paired(
            [getattr(row.A, name) for row in rows],
            [getattr(row.B, name) for row in rows],
            alpha=ALPHA,
            seed=SEED,
            bounds=(0.0, 1.0),
        )
        for name in METRICS
    }
    corrected = stats.correct([test.randomisation.p for test in tests.values()], "holm")
    return {
        name: Tested(
            n=test.n,
            difference=test.difference,
            interval=test.interval,
            p=test.randomisation.p,
            p_corrected=p,
            significant=None if p is None else p <= ALPHA,
            wins=test.wins,
            losses=test.losses,
            ties=test.ties,
            reason=test.randomisation.reason,
        )
        for (name, test), p in zip(tests.items(), corrected, strict=True)
    }


def _warnings(judgments: Judgments, arms: Mapping[Name, Arm]) -> Iterator[str]:
    unjudged = [qid for qid, grades in judgments.items() if not any(grade > 0 for grade in grades.values())]
    if unjudged:
        yield f"no document is judged relevant for {_queries(unjudged)}"
    for name, arm in arms.items():
        if empty := [qid for qid, ranked in arm.lists.items() if not ranked]:
            yield f"{name} has no document for {_queries(empty)}"


def _queries(qids: Sequence[str]) -> str:
    many = "query, which scores 0" if len(qids) == 1 else "queries, which score 0"
    return f"{len(qids)} {many}: {listed(qids)}"
