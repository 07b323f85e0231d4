"""The report's summary as Markdown, for a pull request or a wiki."""

from __future__ import annotations

from collections.abc import Sequence

from ragassay.documents import Report
from ragassay.exporters.summary import missing, sections

_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>|#"})


def export(report: Report) -> bytes:
    """A heading, a table per section, what is missing, and where the numbers come from."""
    source, run = report.provenance, report.run
    lines = [
        f"# Evaluation of {_text(source.dataset.name)}",
        "",
        f"Run `{run.id}`, {run.status}, {source.dataset.rows} queries, judge `{source.judge['name']}`.",
    ]
    for section in sections(report):
        lines += ["", f"## {section.title}", "", _row(["", *map(_text, report.systems)])]
        lines += [_row(["---"] * (len(report.systems) + 1))]
        lines += [_row([label, *cells]) for label, cells in section.rows]
    gaps = list(missing(report))
    lines += ["", "## Missing", "", *([f"- {_text(gap)}" for gap in gaps] or ["Nothing: every row has every score."])]
    lines += [
        "",
        "## Where the numbers come from",
        "",
        f"- ragassay {source.ragassay}, configuration `{source.configuration_digest[:12]}`",
        f"- dataset `{source.dataset.digest[:12]}`",
        *(f"- system {_text(name)} `{system.digest[:12]}`" for name, system in source.systems.items()),
        f"- embeddings: {_text(source.embeddings or 'none')}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(value: str) -> str:
    """Text that Markdown shows as it is."""
    return " ".join(value.split()).translate(_ESCAPED)
