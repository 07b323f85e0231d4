"""Which of two retrieval configurations ranks better, offline: queries, judgments and two recipes in, one document out.

The document depends on the bytes of its inputs alone: no clock, no network, one fixed seed. docs/retrieval.md describes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

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
from ragassay.systems.retrieval import Retriever

METRICS = {"recall": "recall", "mrr": "mrr", "ndcg": "ndcg_exp"}
DIGITS = 12  # the last bits of a sum depend on the processor
LARGEST_GRADE = 100
_GRADE = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
Name: TypeAlias = Literal["A", "B"]
NAMES: tuple[Name, ...] = ("A", "B")


class Reported(FrozenModel):
    """What of a run's performance may be reported."""

    report_memory: bool = Field(False, description="traces need it")


class Perf(FrozenModel):
    """Whether a run may be observed."""

    enabled: bool = Field(False, description="traces need it")
    metrics: Reported = Field(Reported(), description="what may be reported")


class Quality(FrozenModel):
    """Whether single queries may be looked at."""

    shadow: bool = Field(False, description="beside the system in use; traces need this or `enabled`")
    enabled: bool = Field(False, description="in the system in use; traces need this or `shadow`")


class Tier2(FrozenModel):
    """The second tier of observation."""

    quality: Quality = Field(Quality(), description="quality of single queries")


class Recipe(FrozenModel):
    """How to retrieve, or the file with what was retrieved; and whether it may be traced.

    Paths are relative to the folder of the configuration.
    """

    retrieval: RetrievalConfig | None = Field(None, description="how to retrieve from the corpus")
    run: Path | None = Field(None, description="ranked lists: a TREC run, or .jsonl with retrieved_doc_ids")
    corpus: Path | None = Field(None, description="passages, unless --corpus is given")
    perf: Perf = Field(Perf(), description="may be observed?")
    t2: Tier2 = Field(Tier2(), description="second tier of observation")

    @model_validator(mode="after")
    def _one_source(self) -> Recipe:
        if (self.retrieval is None) is (self.run is None):
            raise ValueError("give either retrieval (how to retrieve) or run (a file with what was retrieved)")
        return self

    def trace_lacks(self) -> str:
        """The switches that traces need and that are off; empty if there may be traces."""
        switches = {
            "perf.enabled": self.perf.enabled,
            "perf.metrics.report_memory": self.perf.metrics.report_memory,
            "t2.quality.shadow or .enabled": self.t2.quality.shadow or self.t2.quality.enabled,
        }
        return ", ".join(name for name, on in switches.items() if not on)


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


def run(
    queries: Path, judgments: Path, a: ConfigFile, b: ConfigFile, *, k: int = 10, corpus: Path | None = None
) -> tuple[Trial, bytes]:
    """Rank documents for the queries as both configurations say, and compare B with A.

    Returns the document and the traces as JSON Lines: a line for each query and each system whose configuration allows it.
    Metrics are the registered ones at ``k``; relevant is a grade above 0. ``corpus`` goes before the one that the
    configurations name. Raises BadInput and its kin for anything that does not fit, NotFound for a missing file.
    """
    if not 1 <= k <= LARGEST_K:
        raise BadSettings(f"k must be a whole number from 1 to {LARGEST_K:,}, not {k}")
    configs: dict[Name, ConfigFile] = {"A": a, "B": b}
    passages, corpus_digest = _read_corpus(corpus, [config.recipe.corpus for config in (a, b)])
    known = {passage.id for passage in passages.passages} if passages else None
    texts = _read_queries(queries)
    graded = _read_judgments(judgments, texts, known)
    lists = {name: _lists(config, texts, known, passages, k) for name, config in configs.items()}
    metrics = {name: parse(f"{family}@{k}") for name, family in METRICS.items()}
    scored = {name: _scored(of_system, graded, metrics) for name, of_system in lists.items()}
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
        differences=_differences(scored, metrics),
        warnings=tuple(_warnings(graded, lists)),
        per_query=tuple(
            Row(qid=qid, A=one, B=other, delta=other - one)
            for qid, one, other in zip(texts, scored["A"], scored["B"], strict=True)
        ),
    )
    allowed = [name for name, config in configs.items() if not config.recipe.trace_lacks()]
    return trial, b"".join(
        to_lines(_trace(qid, name, lists[name][qid], graded[qid]) for qid in texts for name in allowed)
    )


def _lists(
    config: ConfigFile, texts: Mapping[str, str], known: Container[str] | None, passages: Corpus | None, k: int
) -> Lists:
    """The first k documents for each query."""
    if config.recipe.run:
        run_lists = _read_run(config.recipe.run, texts, known)
        return {qid: run_lists.get(qid, ())[:k] for qid in texts}
    if config.recipe.retrieval is None or passages is None:
        raise BadSettings("there is no corpus to retrieve from", where=config.path, hint="give --corpus FILE")
    retriever = Retriever(config.recipe.retrieval, passages)
    return {qid: [Ranking(*hit) for hit in retriever.search(text, k).hits][:k] for qid, text in texts.items()}


def _scored(lists: Lists, judgments: Judgments, metrics: Mapping[str, Metric]) -> list[Scored]:
    """Figures of every query, in order."""
    hits = [tuple(ranking.id for ranking in ranked) for ranked in lists.values()]
    ranked = Ranked.build(hits, [judgments[qid] for qid in lists])
    columns = {name: np.round(metric.values(ranked), DIGITS).tolist() for name, metric in metrics.items()}
    rows = zip(*columns.values(), strict=True)
    return [Scored(hits=ids, **dict(zip(METRICS, row, strict=True))) for ids, row in zip(hits, rows, strict=True)]


def _means(rows: Sequence[Figures]) -> Figures:
    return Figures(**{name: round(math.fsum(getattr(r, name) for r in rows) / len(rows), DIGITS) for name in METRICS})


def _differences(scored: Mapping[Name, Sequence[Figures]], metrics: Mapping[str, Metric]) -> dict[str, Difference]:
    contrast, differences = Contrast("A", "B", ""), list[Difference]()
    for name, metric in metrics.items():
        a, b = (np.array([getattr(row, name) for row in scored[side]]) for side in NAMES)
        differences.append(contrast.paired(metric.name, a, b, better="higher"))
    adjusted = correct([one.p for one in differences], "holm")
    decided = [contrast.decided(one, p, len(metrics)) for one, p in zip(differences, adjusted, strict=True)]
    return dict(zip(metrics, decided, strict=True))


def _trace(qid: str, system: str, ranking: Sequence[Ranking], grades: Mapping[str, float]) -> dict[str, Any]:
    """The ranked documents of a query, and why it has the figures it has."""
    ranked = [
        {"rank": rank, "id": one.id, "score": one.score, "stages": one.stages, "grade": grades.get(one.id)}
        for rank, one in enumerate(ranking, 1)
    ]
    total = sum(grade > 0 for grade in grades.values())
    ranks = [rank for rank, one in enumerate(ranking, 1) if grades.get(one.id, 0) > 0]
    if not total:
        reason = "nothing is judged relevant"
    elif not ranks:
        reason = f"none of {total} relevant among {len(ranked)}"
    else:
        reason = f"{len(ranks)} of {total} relevant among {len(ranked)}, the first at rank {ranks[0]}"
    return {"qid": qid, "system": system, "ranked": ranked, "reason": reason}


def _warnings(judgments: Judgments, lists: Mapping[Name, Lists]) -> Iterator[str]:
    unjudged = [qid for qid, grades in judgments.items() if not any(grade > 0 for grade in grades.values())]
    empty = {name: [qid for qid, ranked in of_system.items() if not ranked] for name, of_system in lists.items()}
    for what, qids in (
        ("no document is judged relevant for", unjudged),
        *((f"{name} has no document for", qids) for name, qids in empty.items()),
    ):
        if qids:
            yield f"{what} {len(qids)} of {len(judgments)} queries, which score 0: {listed(qids)}"


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
    for where, (qid, text) in _fields(path, "a query id", "the query's text"):
        if qid in queries:
            raise BadInput(f"query {qid!r} is there twice", where=where)
        queries[qid] = text
    return queries


def _read_judgments(
    path: Path, queries: Mapping[str, str], documents: Container[str] | None
) -> dict[str, dict[str, float]]:
    """{qid: {document id: grade}} for every query."""
    judgments: dict[str, dict[str, float]] = {qid: {} for qid in queries}
    for where, (qid, doc, grade) in _fields(path, "a query id", "a document id", "a grade"):
        if not _GRADE.fullmatch(grade.strip()) or abs(float(grade)) > LARGEST_GRADE:
            hint = f"write a number up to {LARGEST_GRADE}, and no header"
            raise BadInput(f"the grade is {grade[:40]!r}", where=where, hint=hint)
        _check(where, qid, doc, queries, documents)
        if doc in judgments[qid]:
            raise BadInput(f"document {doc!r} is judged twice for query {qid!r}", where=where)
        judgments[qid][doc] = float(grade)
    return judgments


def _fields(path: Path, *names: str) -> Iterator[tuple[str, list[str]]]:
    """The place and the fields of each line, which are called so and have tabs between them."""
    for where, line in _rows(path):
        fields = line.split("\t")
        if len(fields) != len(names) or not all(field.strip() for field in fields):
            raise BadInput(f"a line is {listed(names)}, with tabs between them", where=where)
        yield where, fields


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
