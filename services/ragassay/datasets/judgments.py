"""Reads judgments that are kept apart from texts: TREC qrels and runs, and BEIR folders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadInput, NotFound
from ragassay.core.validation import shown
from ragassay.datasets.source import NumberedRow, Source, ValueProblem, jsonl_rows, text_lines

QRELS, RUN = 4, 6
_FORMS = "qrels have 4 columns (query, iteration, document, grade), runs 6 (query, Q0, document, rank, score, tag)"
_HINT = f"TREC {_FORMS}; format=NAME sets another"


def read_trec(path: Path) -> Source:
    """TREC qrels, as rows with judgments, or a run, as rows with what was retrieved; columns are parted by white space.

    Qrels hold no texts, so a query's id stands for its text. A run is ordered as by trec_eval: by score, equal scores by
    document id, descending in the order of its bytes; its ranks are not read.
    """
    source = Source(path)
    judgments = _GradesByQuery()
    ranked: dict[str, tuple[int, list[tuple[float, str]]]] = {}
    columns = 0
    for number, line in text_lines(path):
        cells = line.split()
        if not cells:
            continue
        columns = columns or len(cells)
        if columns not in (QRELS, RUN):
            raise BadData([f"{path}:{number}: has {_columns(cells)}"], hint=_HINT)
        if len(cells) != columns:
            source.add_problem(number, f"has {_columns(cells)}, the lines before it have {columns}")
            continue
        try:
            if columns == QRELS:
                judgments.add(number, *qrels_line(cells))
            else:
                query, document, score = run_line(cells)
                ranked.setdefault(query, (number, []))[1].append((score, document))
        except ValueProblem as error:
            source.add_problem(number, error.what)
    rows: list[NumberedRow] = [
        (number, {"query_id": query, "query": query, "relevance_scores": judgments.grades[query]})
        for query, number in judgments.first_lines.items()
    ]
    for query, (number, documents) in ranked.items():
        documents.sort(reverse=True)
        ids, scores = [document for _, document in documents], [score for score, _ in documents]
        rows.append((number, {"query_id": query, "retrieved_doc_ids": ids, "retrieved_scores": scores}))
    source.rows = rows
    if judgments.grades:
        source.judged_only = True
        source.warnings.append("qrels hold no texts, so the id of a query stands for its text")
    return source


def qrels_line(cells: Sequence[str]) -> tuple[str, str, float]:
    """Query, document and grade of the columns of a line of TREC qrels. Raises ValueProblem."""
    if len(cells) != QRELS:
        raise ValueProblem(f"has {_columns(cells)}, TREC qrels have 4: qid iter docid rel")
    query, _, document, grade = cells
    return query, document, _number(grade, "grade")


def run_line(cells: Sequence[str]) -> tuple[str, str, float]:
    """Query, document and score of the columns of a TREC run's line. Raises ValueProblem."""
    if len(cells) != RUN:
        raise ValueProblem(f"has {_columns(cells)} where a TREC run has 6: qid Q0 docid rank score tag")
    query, _, document, _, score, _ = cells
    return query, document, _number(score, "score")


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
    qrels = Source(path if path != folder else _split(folder))
    judgments = _GradesByQuery()
    for number, line in text_lines(qrels.path):
        cells = line.rstrip("\r\n").split("\t")
        if line.isspace() or (number == 1 and _is_header(cells)):
            continue
        if len(cells) != 3:
            qrels.add_problem(number, f"has {_columns(cells)}, not 3")
            continue
        try:
            judgments.add(number, cells[0], cells[1], _number(cells[2], "grade"))
        except ValueProblem as error:
            qrels.add_problem(number, error.what)
    source = Source(folder / "queries.jsonl", name=folder.resolve().name, judged_only=True)
    queries = list(jsonl_rows(source))
    rows: list[NumberedRow] = []
    for number, row in queries:
        query = str(row.get("_id", ""))
        if grades := judgments.grades.pop(query, None):
            rows.append((number, _row(query, row, grades, qrels.path.stem)))
    source.rows = rows
    for query in judgments.grades:
        qrels.add_problem(judgments.first_lines[query], f"query {shown(query)} is not in {source.path}")
    qrels.check()
    if left_out := len(queries) - len(rows):
        source.warnings.append(f"{left_out} of {len(queries)} queries are not judged in {qrels.path} and left out")
    return source


class _GradesByQuery:
    """Grades by query, and the line on which each query is first judged."""

    def __init__(self) -> None:
        self.grades: dict[str, dict[str, float]] = {}
        self.first_lines: dict[str, int] = {}

    def add(self, number: int, query: str, document: str, grade: float) -> None:
        """Add the judgment of a line; raises ValueProblem."""
        if not (query and document):
            raise ValueProblem("the id of the query or of the document is empty")
        self.first_lines.setdefault(query, number)
        grades = self.grades.setdefault(query, {})
        if document in grades:
            raise ValueProblem(f"document {shown(document)} is judged twice for query {shown(query)}")
        grades[document] = grade


def _row(query: str, row: dict[str, Any], grades: dict[str, float], split: str) -> dict[str, Any]:
    values = {"query_id": query, "query": row.get("text"), "relevance_scores": grades, "split": split}
    return values | ({"metadata": row["metadata"]} if row.get("metadata") else {})


def _split(folder: Path) -> Path:
    splits = sorted((folder / "qrels").glob("*.tsv"))
    named = [path for path in splits if path.stem == "test"] or splits
    if not named:
        raise NotFound("holds no split, such as test.tsv", where=str(folder / "qrels"))
    if len(named) > 1:
        raise BadInput("has several splits and none called test", where=str(folder), hint=f"name one: {named[0]}")
    return named[0]


def _is_header(cells: list[str]) -> bool:
    try:
        _number(cells[-1], "grade")
    except ValueProblem:
        return len(cells) == 3
    return False


def _number(text: str, what: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueProblem(f"{what}: should be a finite number, is {shown(text)}")
    return value


def _columns(cells: Sequence[str]) -> str:
    return "1 column" if len(cells) == 1 else f"{len(cells)} columns"
