"""A trial as bytes: a table for spreadsheets, and traces of single queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragassay.ab.inputs import Ranking
from ragassay.ab.trial import METRICS, Trial, TrialRun
from ragassay.core.errors import BadInput
from ragassay.core.files import to_lines
from ragassay.reporting.csv import line


def to_csv(trial: Trial) -> bytes:
    """Two rows for each query, A and B. Raises BadInput for an id with a space: hits are joined with spaces."""
    lines = [line(["qid", "system", *METRICS, "hits"])]
    for row in trial.per_query:
        for name, scored in (("A", row.A), ("B", row.B)):
            if spaced := next((doc for doc in scored.hits if " " in doc), None):
                raise BadInput(
                    f"document id {spaced!r} holds a space", hint="leave out --csv: it joins ids with spaces"
                )
            figures = [getattr(scored, metric) for metric in METRICS]
            lines.append(line([row.qid, name, *figures, " ".join(scored.hits)]))
    return b"".join(lines)


def to_traces(run: TrialRun) -> bytes:
    """A line for each query and each system whose configuration allows it, as JSON Lines; none is no byte."""
    return b"".join(to_lines(_traces(run)))


def _traces(run: TrialRun) -> Iterator[dict[str, Any]]:
    allowed = {name: arm for name, arm in run.arms.items() if arm.recipe.trace_lacks() is None}
    for qid, grades in run.judgments.items():
        for name, arm in allowed.items():
            ranked = [_traced(rank, one, grades.get(one.id)) for rank, one in enumerate(arm.lists[qid], 1)]
            total = sum(grade > 0 for grade in grades.values())
            yield {"qid": qid, "system": name, "ranked": ranked, "reason": _reason(ranked, total)}


def _traced(rank: int, one: Ranking, grade: float | None) -> dict[str, Any]:
    return {"rank": rank, "id": one.id, "score": one.score, "stages": dict(one.stages), "grade": grade}


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
