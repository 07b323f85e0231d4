"""The report's summary as Markdown, for a pull request or a wiki."""

from __future__ import annotations

from ragassay.documents import Report
from ragassay.exporters.summary import interrupted, missing, sections, stopped, suspicious
from ragassay.render import markdown_code, markdown_row, markdown_text


def export(report: Report) -> bytes:
    """A heading, a table per section, what is missing, and where the numbers come from."""
    source, run = report.provenance, report.run
    lines = [
        f"# Evaluation of {markdown_text(source.dataset.name)}",
        "",
        f"Run `{run.id}`, {run.status}, {source.dataset.rows} queries, judge {markdown_code(source.judge['name'])}.",
    ]
    if early := stopped(report):
        lines += ["", f"{markdown_text(early)[:1].upper()}{markdown_text(early)[1:]}."]
    for section in sections(report):
        lines += ["", f"## {section.title}", "", markdown_row(["", *map(markdown_text, report.systems)])]
        lines += [markdown_row(["---"] * (len(report.systems) + 1))]
        lines += [markdown_row([label, *cells]) for label, cells in section.rows]
    if lost := interrupted(report):
        lines += ["", f"{lost[:1].upper()}{lost[1:]}."]
    gaps = list(missing(report))
    lines += [
        "",
        "## Missing",
        "",
        *([f"- {markdown_text(gap)}" for gap in gaps] or ["Nothing: every row has every score."]),
    ]
    if marked := list(suspicious(report)):
        lines += ["", "## Suspicious", "", *(f"- {markdown_text(line)}" for line in marked)]
    lines += [
        "",
        "## Where the numbers come from",
        "",
        f"- ragassay {source.ragassay}, configuration `{source.configuration_digest[:12]}`",
        f"- dataset `{source.dataset.digest[:12]}`",
        *(f"- system {markdown_text(name)} `{system.digest[:12]}`" for name, system in source.systems.items()),
        f"- embeddings: {markdown_text(source.embeddings or 'none')}",
    ]
    return ("\n".join(lines) + "\n").encode()
