"""Reads judgments that are kept apart from texts: TREC qrels and runs, and BEIR folders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from ragassay.core.errors import BadData, BadInput, NotFound
from ragassay.core.validation import shown
from ragassay.datasets.source import NumberedRow, Source, ValueProblem, jsonl_rows, text_lines

QRELS, RUN = "qid iter docid rel", "qid Q0 docid rank score tag"
_HINT = f"TREC qrels have the columns {QRELS}, runs {RUN}; format=NAME sets another"
_Judged: TypeAlias = dict[str, tuple[int, dict[str, float]]]  # by query: the line of its first judgment, and its grades


def read_trec(path: Path) -> Source:
    """TREC qrels, as rows with judgments, or a run, as rows with what was retrieved; columns are parted by white space.

    Qrels hold no texts, so a query's id stands for its text. A run is ordered as by trec_eval: by score, equal scores by
    document id, descending in the order of its bytes; its ranks are not read.
    """
    source, judged = Source(path), _Judged()
    ranked: dict[str, tuple[int, list[tuple[float, str]]]] = {}
    form = ""
    for number, line in text_lines(path):
        if not (cells := line.split()):
            continue
        form = form or next((each for each in (QRELS, RUN) if len(each.split()) == len(cells)), "")
        if not form:
            raise BadData([f"{path}:{number}: has {len(cells)} columns"], hint=_HINT)
        try:
            if form == QRELS:
                _add(judged, number, *qrels_line(cells))
            else:
                query, document, score = run_line(cells)
                ranked.setdefault(query, (number, []))[1].append((score, document))
        except ValueProblem as error:
            source.add_problem(number, error.what)
    rows: list[NumberedRow] = [
        (number, {"query_id": query, "query": query, "relevance_scores": grades})
        for query, (number, grades) in judged.items()
    ]
    for query, (number, documents) in ranked.items():
        scores, ids = zip(*sorted(documents, reverse=True), strict=True)
        rows.append((number, {"query_id": query, "retrieved_doc_ids": list(ids), "retrieved_scores": list(scores)}))
    source.rows = rows
    if judged:
        source.judged_only = True
        source.warnings.append("qrels hold no texts, so the id of a query stands for its text")
    return source


def qrels_line(cells: Sequence[str]) -> tuple[str, str, float]:
    """Query, document and grade of the columns of a line of TREC qrels. Raises ValueProblem."""
    query, _, document, grade = _checked(cells, QRELS)
    return query, document, _number(grade, "grade")


def run_line(cells: Sequence[str]) -> tuple[str, str, float]:
    """Query, document and score of the columns of a TREC run's line. Raises ValueProblem."""
    query, _, document, _, score, _ = _checked(cells, RUN)
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
    qrels, judged = Source(path if path != folder else _split(folder)), _Judged()
    for number, line in text_lines(qrels.path):
        if line.isspace() or (number == 1 and line.startswith(("query-id", "query_id"))):
            continue
        try:
            query, document, grade = _checked(line.rstrip("\r\n").split("\t"), "query-id corpus-id score")
            _add(judged, number, query, document, _number(grade, "grade"))
        except ValueProblem as error:
            qrels.add_problem(number, error.what)
    source = Source(folder / "queries.jsonl", name=folder.resolve().name, judged_only=True)
    queries = list(jsonl_rows(source))
    rows: list[NumberedRow] = []
    for number, row in queries:
        if found := judged.pop(str(row.get("_id", "")), None):
            values = {"query_id": row["_id"], "query": row.get("text"), "metadata": row.get("metadata") or None}
            rows.append((number, {**values, "relevance_scores": found[1], "split": qrels.path.stem}))
    for query, (number, _) in judged.items():
        qrels.add_problem(number, f"query {shown(query)} is not in {source.path}")
    qrels.check()
    source.rows = rows
    if left_out := len(queries) - len(rows):
        source.warnings.append(f"{left_out} of {len(queries)} queries are not judged in {qrels.path} and left out")
    return source


def _add(judged: _Judged, number: int, query: str, document: str, grade: float) -> None:
    """Add the judgment of a line; raises ValueProblem."""
    if not (query and document):
        raise ValueProblem("the id of the query or of the document is empty")
    grades = judged.setdefault(query, (number, {}))[1]
    if document in grades:
        raise ValueProblem(f"document {shown(document)} is judged twice for query {shown(query)}")
    grades[document] = grade


def _split(folder: Path) -> Path:
    splits = sorted((folder / "qrels").glob("*.tsv"))
    named = [path for path in splits if path.stem == "test"] or splits
    if not named:
        raise NotFound("holds no split, such as test.tsv", where=str(folder / "qrels"))
    if len(named) > 1:
        raise BadInput("has several splits and none called test", where=str(folder), hint=f"name one: {named[0]}")
    return named[0]


def _checked(cells: Sequence[str], form: str) -> Sequence[str]:
    if len(cells) != len(form.split()):
        raise ValueProblem(f"has {len(cells)} columns, not {len(form.split())}: {form}")
    return cells


def _number(text: str, what: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueProblem(f"{what}: should be a finite number, is {shown(text)}")
    return value
