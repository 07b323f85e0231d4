"""Which answers a model prefers, as a document."""

from __future__ import annotations

from ragassay.analysis.pairwise import PreferenceReport
from ragassay.core.formatting import interval, json_document, number
from ragassay.reporting.document import Card, Cards, Document
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.figures import spent
from ragassay.reporting.markdown import to_markdown


def of_preferences(report: PreferenceReport) -> Document:
    """Wins, ties and losses with the interval of the win rate, how often order decided, and the queries that ``b`` loses."""
    rate, pairs = report.win_rate, len(report.rows)
    ends = f" {interval(rate.interval)}" if rate.interval else ""
    notes = [f"not judged: {count} of {pairs} pairs: {reason}" for reason, count in rate.missing.items()]
    notes.append(f"{report.flipped} of {report.asked} pairs flipped with the order of the answers, and count as ties")
    lost = tuple(
        Card(row.query, row.query_id, (("why", next(filter(None, row.preference.why), "the answer is empty")),))
        for row in report.rows
        if row.preference.better == "a"
    )
    return Document(
        f"{report.b} against {report.a}",
        answer=(
            (
                f"{report.judge} prefers {report.b} on {report.wins} of {rate.n} queries and {report.a} on {report.losses}; "
                f"{report.ties} ties"
            ),
            (
                f"win rate {number(rate.value)}{ends} (a tie is half a win); "
                f"p {number(report.p)} (sign test over {report.wins + report.losses} decided pairs)"
            ),
        ),
        notes=(*notes, f"judge: {spent(report.usage)}"),
        blocks=(Cards(f"{report.b} loses", lost),) if lost else (),
    )


def _markdown(report: PreferenceReport) -> bytes:
    return to_markdown(of_preferences(report), "preferences")


EXPORTERS: Exporters[PreferenceReport] = Exporters("preferences exporter", {"json": json_document, "md": _markdown})
