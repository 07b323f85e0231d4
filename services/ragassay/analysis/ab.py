"""Which of two retrieval configurations ranks better, offline: queries, judgments and two recipes in, one document out.

The document depends on the bytes of its inputs alone: no clock, no network, one fixed seed. docs/retrieval.md describes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from ragassay.analysis.difference import Contrast, Difference
from ragassay.core.errors import BadData, BadInput, BadSettings
from ragassay.core.files import to_lines
from ragassay.core.formatting import listed
from ragassay.core.models import FrozenModel
from ragassay.datasets.corpus import Corpus
from ragassay.datasets.judgments import run_line
from ragassay.datasets.load import load_responses
from ragassay.datasets.source import ValueProblem, read_errors, text_lines
from ragassay.metrics.metric import Metric, parse
from ragassay.metrics.names import LARGEST_K
from ragassay.metrics.ranked import Ranked
from ragassay.stats.tests import correct
from ragassay.systems.options import RetrievalConfig
from ragassay.systems.retrieval import build

METRICS = {"recall": "recall", "mrr": "mrr", "ndcg": "ndcg_exp"}
DIGITS = 12  # the last bits of a sum depend on the processor
LARGEST_GRADE = 100
_GRADE = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
Name: TypeAlias = Literal["A", "B"]


class Reported(FrozenModel):
    """What of a run's performance may be reported."""

    report_memory: Annotated[bool, Field(description="traces need it")] = False


class Perf(FrozenModel):
    """Whether a run may be observed."""

    enabled: Annotated[bool, Field(description="traces need it")] = False
    metrics: Annotated[Reported, Field(description="what may be reported")] = Reported()


class Quality(FrozenModel):
    """Whether single queries may be looked at."""

    shadow: Annotated[bool, Field(description="beside the system in use; traces need this or `enabled`")] = False
    enabled: Annotated[bool, Field(description="in the system in use; traces need this or `shadow`")] = False


class Tier2(FrozenModel):
    """The second tier of observation."""

    quality: Annotated[Quality, Field(description="quality of single queries")] = Quality()


class Recipe(FrozenModel):
    """How to retrieve, or the file with what was retrieved; and whether it may be traced.

    Paths are relative to the folder of the configuration.
    """

    retrieval: Annotated[RetrievalConfig | None, Field(description="how to retrieve from the corpus")] = None
    run: Annotated[Path | None, Field(description="ranked lists: a TREC run, or .jsonl with retrieved_doc_ids")] = None
    corpus: Annotated[Path | None, Field(description="passages, unless --corpus is given")] = None
    perf: Annotated[Perf, Field(description="may be observed?")] = Perf()
    t2: Annotated[Tier2, Field(description="second tier of observation")] = Tier2()

    @model_validator(mode="after")
    def _one_source(self) -> Recipe:
        if (self.retrieval is None) is (self.run is None):
            raise ValueError("give either retrieval (how to retrieve) or run (a file with what was retrieved)")
        return self

    def trace_lacks(self) -> str | None:
        """The switches that traces need and that are off; None if there may be traces."""
        quality = self.t2.quality
        switches = {
            "perf.enabled": self.perf.enabled,
            "perf.metrics.report_memory": self.perf.metrics.report_memory,
            "t2.quality.shadow or .enabled": quality.shadow or quality.enabled,
        }
        return ", ".join(name for name, on in switches.items() if not on) or None


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


class Trial(FrozenModel):
    """The document. Digests are SHA-256 in hex, null without such a file; rows are in the queries' order.

    ``differences``: of each metric, with p of the paired randomisation test (seed 0), corrected by Holm's method for all
    three.
    """

    schema_version: Literal[1] = 1
    k: int
    corpus_digest: str | None
    queries_digest: str
    qrels_digest: str
    run_digests: dict[Name, str | None]
    definitions: dict[str, str]
    systems: dict[Name, System]
    delta: Averages
    differences: dict[str, Difference]
    warnings: tuple[str, ...]
    per_query: tuple[Row, ...]


class Ranking(NamedTuple):
    """A document in a ranked list; ``stages`` are the scores that made its score, by the name of the stage."""

    id: str
    score: float | None
    stages: Mapping[str, float]


Lists: TypeAlias = Mapping[str, Sequence[Ranking]]
Judgments: TypeAlias = Mapping[str, Mapping[str, float]]


class ConfigFile(NamedTuple):
    """A configuration that was read: its path as typed, what it says, and the SHA-256 of that."""

    path: str
    recipe: Recipe
    digest: str


@dataclass(frozen=True)
class Arm:
    """One configuration and, for each query, the first k documents."""

    config: ConfigFile
    lists: Lists


@dataclass(frozen=True)
class TrialRun:
    """The document, and what traces need in addition."""

    trial: Trial
    arms: Mapping[Name, Arm]
    judgments: Judgments

    def traces(self) -> bytes:
        """A line for each query and each system whose configuration allows it, as JSON Lines; empty if none does."""
        return b"".join(to_lines(self._traces()))

    def _traces(self) -> Iterator[dict[str, Any]]:
        allowed = {name: arm for name, arm in self.arms.items() if arm.config.recipe.trace_lacks() is None}
        for qid, grades in self.judgments.items():
            total = sum(grade > 0 for grade in grades.values())
            for name, arm in allowed.items():
                ranked = [
                    {"rank": rank, "id": one.id, "score": one.score, "stages": one.stages, "grade": grades.get(one.id)}
                    for rank, one in enumerate(arm.lists[qid], 1)
                ]
                yield {"qid": qid, "system": name, "ranked": ranked, "reason": _reason(ranked, total)}


def run(
    queries: Path, judgments: Path, a: ConfigFile, b: ConfigFile, *, k: int = 10, corpus: Path | None = None
) -> TrialRun:
    """Rank documents for the queries as both configurations say, and compare B with A.

    Metrics are the registered ones at ``k``; relevant is a grade above 0. ``corpus`` goes before the one that the
    configurations name. Raises BadInput and its kin for anything that does not fit, NotFound for a missing file.
    """
    if not 1 <= k <= LARGEST_K:
        raise BadSettings(f"k must be a whole number from 1 to {LARGEST_K:,}, not {k}")
    metrics = {name: parse(f"{family}@{k}") for name, family in METRICS.items()}
    passages, corpus_digest = _read_corpus(corpus, [config.recipe.corpus for config in (a, b)])
    known = {passage.id for passage in passages.passages} if passages else None
    texts = _read_queries(queries)
    graded = _read_judgments(judgments, texts, known)
    arms: dict[Name, Arm] = {}
    configs: dict[Name, ConfigFile] = {"A": a, "B": b}
    for name, config in configs.items():
        lists: Lists
        if config.recipe.run:
            lists = _read_run(config.recipe.run, texts, known)
        elif passages and config.recipe.retrieval:
            retriever = build(config.recipe.retrieval, passages)
            lists = {qid: [Ranking(*hit) for hit in retriever.search(text, k).hits] for qid, text in texts.items()}
        else:
            raise BadSettings("there is no corpus to retrieve from", where=config.path, hint="give --corpus FILE")
        arms[name] = Arm(config, {qid: lists.get(qid, ())[:k] for qid in texts})
    scored = {name: _scored(arm.lists, graded, metrics, k) for name, arm in arms.items()}
    rows = tuple(Row(qid=q, A=a, B=b, delta=b - a) for q, a, b in zip(texts, scored["A"], scored["B"], strict=True))
    macro = {name: _means(figures) for name, figures in scored.items()}
    trial = Trial(
        k=k,
        corpus_digest=corpus_digest,
        queries_digest=_digest(queries),
        qrels_digest=_digest(judgments),
        run_digests={name: one.recipe.run and _digest(one.recipe.run) for name, one in configs.items()},
        definitions={name: f"{metric.name}: {metric.description}" for name, metric in metrics.items()},
        systems={
            name: System(config_path=path, config_digest=digest, metrics=Averages(macro=macro[name]))
            for name, (path, _, digest) in configs.items()
        },
        delta=Averages(macro=macro["B"] - macro["A"]),
        differences=_differences(rows, metrics),
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


def _differences(rows: Sequence[Row], metrics: Mapping[str, Metric]) -> dict[str, Difference]:
    contrast = Contrast("A", "B", "")
    differences = {}
    for name, metric in metrics.items():
        a, b = (
            np.array([getattr(side, name) for side in sides]) for sides in zip(*((r.A, r.B) for r in rows), strict=True)
        )
        differences[name] = contrast.paired(metric.name, a, b, better="higher")
    adjusted = correct([one.p for one in differences.values()], "holm")
    return {
        name: contrast.decided(one, p, len(differences))
        for (name, one), p in zip(differences.items(), adjusted, strict=True)
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


def _reason(ranked: list[dict[str, Any]], total: int) -> str:
    """Why the query has the figures it has."""
    relevant = [one for one in ranked if (one["grade"] or 0) > 0]
    if not total:
        return "nothing is judged relevant"
    if not ranked:
        return f"nothing was retrieved; {total} relevant"
    if not relevant:
        return f"none of {total} relevant among {len(ranked)}"
    return f"{len(relevant)} of {total} relevant among {len(ranked)}, the first at rank {relevant[0]['rank']}"


def _read_corpus(given: Path | None, named: Sequence[Path | None]) -> tuple[Corpus | None, str | None]:
    """The corpus that is given, else the one that the configurations name; None without either."""
    paths = [given] if given else [path for path in named if path]
    digests = {_digest(path): path for path in paths}
    if len(digests) > 1:
        raise BadInput(f"the configurations name different corpora: {', '.join(map(str, paths))}", hint="give --corpus")
    for digest, path in digests.items():
        with _in_one_line():
            return Corpus.read(path), digest
    return None, None


def _read_queries(path: Path) -> dict[str, str]:
    """{qid: text} in the order of the file."""
    queries: dict[str, str] = {}
    for where, line in _rows(path):
        qid, *rest = line.split("\t")
        if len(rest) != 1 or not qid.strip() or not rest[0].strip():
            raise BadInput("a line is a query id, a tab and the query's text", where=where)
        if qid in queries:
            raise BadInput(f"query {qid!r} is there twice", where=where)
        queries[qid] = rest[0]
    return queries


def _read_judgments(
    path: Path, queries: Mapping[str, str], documents: Container[str] | None
) -> dict[str, dict[str, float]]:
    """{qid: {document id: grade}} for every query."""
    judgments: dict[str, dict[str, float]] = {qid: {} for qid in queries}
    for where, line in _rows(path):
        fields = line.split("\t")
        if len(fields) != 3 or not all(field.strip() for field in fields):
            raise BadInput("a line is a query id, a document id and a grade, with tabs between them", where=where)
        qid, doc, grade = fields
        if not _GRADE.fullmatch(grade.strip()) or abs(float(grade)) > LARGEST_GRADE:
            hint = f"write a number up to {LARGEST_GRADE}, and no header"
            raise BadInput(f"the grade is {grade[:40]!r}", where=where, hint=hint)
        _check(where, qid, doc, queries, documents)
        if doc in judgments[qid]:
            raise BadInput(f"document {doc!r} is judged twice for query {qid!r}", where=where)
        judgments[qid][doc] = float(grade)
    return judgments


def _read_run(path: Path, queries: Mapping[str, str], documents: Container[str] | None) -> Lists:
    """{qid: its ranked documents}, without the queries that the run leaves out.

    ``.jsonl`` holds a line for each query with ``query_id``, ``retrieved_doc_ids`` and, if wanted,
    ``retrieved_scores``, as for ``ragassay evaluate``. Any other file is a TREC run, ``qid Q0 docid rank score tag``,
    whose ranks are not looked at. Lists are in the order of their scores, ties by document id; without scores they
    stay as they are.
    """
    lists: dict[str, dict[str, Ranking]] = {}
    for where, qid, doc, score in _responses(path) if path.suffix.lower() == ".jsonl" else _trec(path):
        _check(where, qid, doc, queries, documents)
        ranked = lists.setdefault(qid, {})
        if doc in ranked:
            raise BadInput(f"document {doc!r} is listed twice for query {qid!r}", where=where)
        ranked[doc] = Ranking(doc, score, {})
    return {qid: sorted(ranked.values(), key=_by_score) for qid, ranked in lists.items()}


def _trec(path: Path) -> Iterator[tuple[str, str, str, float | None]]:
    for where, line in _rows(path):
        try:
            yield where, *run_line(line.split())
        except ValueProblem as error:
            raise BadInput(error.what, where=where) from None


def _responses(path: Path) -> Iterator[tuple[str, str, str, float | None]]:
    with _in_one_line():
        responses = load_responses(path).by_id
    for qid, response in responses.items():
        ids = response.retrieved_doc_ids
        if ids is None:
            raise BadInput(f"query {qid!r} has no retrieved_doc_ids", where=str(path))
        for doc, score in zip(ids, response.retrieved_scores or (None,) * len(ids), strict=True):
            yield str(path), qid, doc, score


def _by_score(ranking: Ranking) -> tuple[float, str]:
    return (0.0, "") if ranking.score is None else (-ranking.score, ranking.id)


def _check(where: str, qid: str, doc: str, queries: Mapping[str, str], documents: Container[str] | None) -> None:
    if qid not in queries:
        raise BadInput(f"query {qid!r} is not among the queries", where=where)
    if documents is not None and doc not in documents:
        raise BadInput(f"document {doc!r} is not in the corpus", where=where)


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """The place and the text of each line that is not blank."""
    empty = True
    with read_errors(path), _in_one_line():
        for number, line in text_lines(path):
            if line.strip():
                empty = False
                yield f"{path}:{number}", line.rstrip("\r\n")
    if empty:
        raise BadInput("the file is empty", where=str(path))


def _digest(path: Path) -> str:
    with read_errors(path):
        return sha256(path.read_bytes()).hexdigest()


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Of all that is wrong with a file the first, and how much more there is."""
    try:
        yield
    except BadData as error:
        raise BadInput(str(error)) from None
