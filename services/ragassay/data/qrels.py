"""Reads judgments that are kept apart from texts: TREC qrels and runs, and BEIR folders."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ragassay.data.documents import read_jsonl
from ragassay.data.problems import shown
from ragassay.data.source import Source, lines
from ragassay.errors import BadData, BadInput, NotFound

QRELS, RUN = 4, 6
_FORMS = "qrels have 4 columns (query, iteration, document, grade), runs 6 (query, Q0, document, rank, score, tag)"
_HINT = f"TREC {_FORMS}; --format says what else the file is"


def read_trec(path: Path) -> Source:
    """TREC qrels, as rows with judgments, or a run, as rows with what was retrieved; columns are parted by white space.

    Qrels hold no texts, so a query's id stands for its text. A run is ordered by score, equal scores by document id
    ascending; its ranks are not read, as by trec_eval.
    """
    source = Source(path)
    rows = ((number, line.split()) for number, line in lines(path) if not line.isspace())
    wanted = 0
    graded = _Graded()
    ranked: dict[str, tuple[int, list[tuple[float, str]]]] = {}
    for number, cells in rows:
        wanted = wanted or len(cells)
        if wanted not in (QRELS, RUN):
            raise BadData([f"{path}:{number}: has {_columns(cells)}"], hint=_HINT)
        problem = None
        if len(cells) != wanted:
            problem = f"has {_columns(cells)}, the lines before it have {wanted}"
        elif wanted == QRELS:
            problem = graded.take(number, cells[0], cells[2], cells[3])
        elif (score := _number(cells[4])) is None:
            problem = f"score: should be a finite number, is {shown(cells[4])}"
        else:
            ranked.setdefault(cells[0], (number, []))[1].append((-score, cells[2]))
        if problem:
            source.refuse(number, problem)
    for query, number in graded.first.items():
        source.rows.append((number, {"query_id": query, "query": query, "relevance_scores": graded.grades[query]}))
    for query, (number, found) in ranked.items():
        found.sort()
        ids, scores = [doc for _, doc in found], [-negative for negative, _ in found]
        source.rows.append((number, {"query_id": query, "retrieved_doc_ids": ids, "retrieved_scores": scores}))
    if graded.first:
        source.judged_only = True
        source.warnings.append("qrels hold no texts, so the id of a query stands for its text")
    return source


def beir_folder(path: Path) -> Path | None:
    """The BEIR folder that ``path``, the folder itself or one of its ``qrels/SPLIT.tsv``, belongs to; else None."""
    folder = path if path.is_dir() else path.parent.parent
    is_split = path.suffix == ".tsv" and path.parent.name == "qrels"
    is_beir = (path.is_dir() or is_split) and (folder / "queries.jsonl").is_file() and (folder / "qrels").is_dir()
    return folder if is_beir else None


def read_beir(folder: Path, path: Path) -> Source:
    """The queries of a BEIR folder that one split judges: the one that ``path`` is, else ``test``, else the only one.

    Raises NotFound where there is no split, BadInput where none of several is called test.
    """
    qrels = path if path != folder else _split(folder)
    graded = _Graded()
    problems = []
    for number, line in lines(qrels):
        cells = line.rstrip("\r\n").split("\t")
        if not line.isspace() and not (number == 1 and len(cells) == 3 and _number(cells[2]) is None):
            problem = graded.take(number, *cells) if len(cells) == 3 else f"has {_columns(cells)}, not 3"
            problems += [f"{qrels}:{number}: {problem}"] if problem else []
    queries = read_jsonl(folder / "queries.jsonl")
    source = Source(queries.path, name=folder.resolve().name, findings=queries.findings, judged_only=True)
    for number, row in queries.rows:
        query = str(row.get("_id", ""))
        if grades := graded.grades.pop(query, None):
            source.rows.append((number, _row(query, row, grades, qrels.stem)))
    problems += [
        f"{qrels}:{graded.first[query]}: query {shown(query)} is not in {queries.path}" for query in graded.grades
    ]
    source.findings += [(0, problem) for problem in problems]
    if left := len(queries.rows) - len(source.rows):
        source.warnings.append(f"{left} of {len(queries.rows)} queries are not judged in {qrels} and left out")
    return source


class _Graded:
    """Grades by query, and the line on which each query is first judged."""

    def __init__(self) -> None:
        self.grades: dict[str, dict[str, float]] = {}
        self.first: dict[str, int] = {}

    def take(self, number: int, query: str, doc: str, grade: str) -> str | None:
        """Take a judgment in; what is wrong with it, if anything is."""
        value = _number(grade)
        if value is None:
            return f"grade: should be a finite number, is {shown(grade)}"
        if not (query and doc):
            return "the id of the query or of the document is empty"
        self.first.setdefault(query, number)
        given = self.grades.setdefault(query, {})
        if doc in given:
            return f"document {shown(doc)} is judged twice for query {shown(query)}"
        given[doc] = value
        return None


def _row(query: str, row: dict[str, Any], grades: dict[str, float], split: str) -> dict[str, Any]:
    given = {"query_id": query, "query": row.get("text"), "relevance_scores": grades, "split": split}
    return given | ({"metadata": row["metadata"]} if row.get("metadata") else {})


def _split(folder: Path) -> Path:
    splits = sorted((folder / "qrels").glob("*.tsv"))
    named = [path for path in splits if path.stem == "test"] or splits
    if not named:
        raise NotFound("holds no split, such as test.tsv", where=str(folder / "qrels"))
    if len(named) > 1:
        raise BadInput("has several splits and none called test", where=str(folder), hint=f"name one: {named[0]}")
    return named[0]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _columns(cells: list[str]) -> str:
    return "1 column" if len(cells) == 1 else f"{len(cells)} columns"
