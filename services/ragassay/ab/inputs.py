"""What a trial is made from: corpus, queries, judgments, runs. Each reader also gives the SHA-256 of the file."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ragassay.core.errors import AssayError, BadData, BadInput, NotFound
from ragassay.datasets.corpus import Corpus
from ragassay.datasets.load import load_responses
from ragassay.datasets.problems import ValueProblem
from ragassay.datasets.qrels import run_line
from ragassay.systems.options import RetrievalConfig
from ragassay.systems.retrieval import build

LARGEST_GRADE = 100
_GRADE = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


class Ranking(NamedTuple):
    """A document in a ranked list; ``stages`` are the scores that made its score, by the name of the stage."""

    id: str
    score: float | None
    stages: Mapping[str, float]


Lists: TypeAlias = Mapping[str, Sequence[Ranking]]
Judgments: TypeAlias = Mapping[str, Mapping[str, float]]


def read_corpus(given: Path | None, named: Sequence[Path | None]) -> tuple[Corpus | None, str | None]:
    """The corpus that is given, else the one that the configurations name; None without either.

    Raises NotFound, and BadInput that names the first bad line, or where different files are named.
    """
    paths = [given] if given else [path for path in named if path]
    digests = {_content(path)[1]: path for path in paths}
    if len(digests) > 1:
        raise BadInput(f"the configurations name different corpora: {', '.join(map(str, paths))}", hint="give --corpus")
    for digest, path in digests.items():
        try:
            return Corpus.read(path), digest
        except BadData as error:
            raise BadInput(str(error)) from None
    return None, None


def read_queries(path: Path) -> tuple[dict[str, str], str]:
    """{qid: text} in the order of the file. Raises NotFound, and BadInput that names the line."""
    queries: dict[str, str] = {}
    rows, digest = _rows(path)
    for where, line in rows:
        qid, *rest = line.split("\t")
        if len(rest) != 1 or not qid.strip() or not rest[0].strip():
            raise BadInput("a line is a query id, a tab and the query's text", where=where)
        if qid in queries:
            raise BadInput(f"query {qid!r} is there twice", where=where)
        queries[qid] = rest[0]
    return queries, digest


def read_judgments(
    path: Path, queries: Mapping[str, str], documents: Container[str] | None
) -> tuple[dict[str, dict[str, float]], str]:
    """{qid: {document id: grade}} for every query. Raises as ``read_queries``, and for an unknown query or document."""
    judgments: dict[str, dict[str, float]] = {qid: {} for qid in queries}
    rows, digest = _rows(path)
    for where, line in rows:
        fields = line.split("\t")
        if len(fields) != 3 or not all(field.strip() for field in fields):
            raise BadInput("a line is a query id, a document id and a grade, with tabs between them", where=where)
        qid, doc, grade = fields
        if not _GRADE.fullmatch(grade.strip()) or abs(float(grade)) > LARGEST_GRADE:
            raise BadInput(
                f"the grade is {grade[:40]!r}", where=where, hint=f"write a number up to {LARGEST_GRADE}, and no header"
            )
        _check(where, qid, doc, queries, documents)
        if doc in judgments[qid]:
            raise BadInput(f"document {doc!r} is judged twice for query {qid!r}", where=where)
        judgments[qid][doc] = float(grade)
    return judgments, digest


def read_run(path: Path, queries: Mapping[str, str], documents: Container[str] | None) -> tuple[Lists, str]:
    """{qid: its ranked documents}, without the queries that the run leaves out. Raises as ``read_judgments``.

    ``.jsonl`` holds a line for each query with ``query_id``, ``retrieved_doc_ids`` and, if wanted,
    ``retrieved_scores``, as for ``ragassay evaluate``. Any other file is a TREC run, ``qid Q0 docid rank score tag``,
    whose ranks are not looked at. Lists are in the order of their scores, ties by document id; without scores they
    stay as they are.
    """
    rows, digest = _rows(path)
    listed = _responses(path) if path.suffix.lower() == ".jsonl" else _trec(rows)
    lists: dict[str, dict[str, Ranking]] = {}
    for where, qid, doc, score in listed:
        _check(where, qid, doc, queries, documents)
        if lists.setdefault(qid, {}).setdefault(doc, ranking := Ranking(doc, score, {})) is not ranking:
            raise BadInput(f"document {doc!r} is listed twice for query {qid!r}", where=where)
    return {qid: sorted(ranked.values(), key=_by_score) for qid, ranked in lists.items()}, digest


def retrieve(config: RetrievalConfig, corpus: Corpus, queries: Mapping[str, str], k: int) -> Lists:
    """{qid: the ``k`` best passages} of the retriever that ``config`` describes."""
    retriever = build(config, corpus)
    return {qid: [Ranking(*hit) for hit in retriever.search(text, k).hits] for qid, text in queries.items()}


def _trec(rows: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str, str, float | None]]:
    for where, line in rows:
        try:
            yield where, *run_line(line.split())
        except ValueProblem as error:
            raise BadInput(error.what, where=where) from None


def _responses(path: Path) -> Iterator[tuple[str, str, str, float | None]]:
    try:
        responses = load_responses(path).by_id
    except AssayError as error:
        raise BadInput(str(error)) from None
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


def _rows(path: Path) -> tuple[Iterator[tuple[str, str]], str]:
    """The lines that are not blank, each with its place; and the SHA-256 of the file."""
    content, digest = _content(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"is not UTF-8 text (byte {error.start})", where=str(path)) from None
    if not text.strip():
        raise BadInput("the file is empty", where=str(path))
    lines = enumerate(text.replace("\r\n", "\n").split("\n"), 1)
    return ((f"{path}:{n}", line) for n, line in lines if line.strip()), digest


def _content(path: Path) -> tuple[bytes, str]:
    """The bytes of a file and their SHA-256."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFound("there is no such file", where=str(path)) from None
    except OSError as error:
        raise BadInput(f"can't be read: {error.strerror}", where=str(path)) from None
    return content, sha256(content).hexdigest()
