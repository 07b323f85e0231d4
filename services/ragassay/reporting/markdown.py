"""The report's summary as Markdown, for a pull request or a wiki."""

from __future__ import annotations

from collections.abc import Sequence

from ragassay.core.formatting import markdown_code, markdown_text
from ragassay.core.report import Report
from ragassay.reporting.failing import failure_causes, headline, slice_fields, slice_section, worst_rows
from ragassay.reporting.outline import rows_table
from ragassay.reporting.summary import interrupted, missing, partial, sections, suspicious

MARKER = "<!-- ragassay report -->"
MOST_ROWS = 100  # of the chosen fields; a comment on a pull request holds 65,536 characters


def export(report: Report, fields: Sequence[str] = ()) -> bytes:
    """The headline, a table per section, what is missing, which rows failed and why, slices, and the sources.

    Its last line is a hidden marker, by which a later comment can replace this one. ``fields``: of the rows too, as a table.
    """
    source, run = report.provenance, report.run
    lines = [
        f"# Evaluation of {markdown_text(source.dataset.name)}",
        "",
        f"Run `{run.id}`, {run.status}, {source.dataset.rows} queries, judge {markdown_code(source.judge['name'])}.",
        "",
        *(f"- **{markdown_text(name)}**: {markdown_text(headline(one))}" for name, one in report.systems.items()),
    ]
    lines += [line for caution in report.cautions for line in ("", f"Caution: {markdown_text(caution)}.")]
    if far := partial(report):
        lines += ["", f"**{markdown_text(far)[:1].upper()}{markdown_text(far)[1:]}.**"]
    for section in sections(report):
        lines += section.table(report.systems).markdown()
    if line := interrupted(report):
        lines += ["", f"{markdown_text(line)[:1].upper()}{markdown_text(line)[1:]}."]
    if gaps := list(missing(report)):
        lines += ["", "## Missing", "", *(f"- {markdown_text(gap)}" for gap in gaps)]
    if marked := list(suspicious(report)):
        lines += ["", "## Suspicious", "", *(f"- {markdown_text(line)}" for line in marked)]
    if failed := failure_causes(report, examples=3):
        lines += failed.table(report.systems).markdown()
    if worst := worst_rows(report):
        lines += ["", "## Worst rows"]
    for row in worst:
        lines += ["", f"**{markdown_text(row.system)} {markdown_text(row.query_id)}**: {markdown_text(row.query)}", ""]
        lines += [f"- {label}: {markdown_text(text)}" for label, text in row.texts]
    for field in slice_fields(report):
        if part := slice_section(report, field):
            lines += part.table(report.systems).markdown()
    if fields:
        lines += rows_table(report, fields, MOST_ROWS).markdown()
    lines += [
        "",
        "## Where the numbers come from",
        "",
        f"- ragassay {source.ragassay}, configuration `{source.configuration_digest[:12]}`",
        f"- dataset `{source.dataset.digest[:12]}`",
        *(f"- system {markdown_text(name)} `{system.digest[:12]}`" for name, system in source.systems.items()),
        f"- embeddings: {markdown_text(source.embeddings or 'none')}",
        "",
        MARKER,
    ]
    return ("\n".join(lines) + "\n").encode()
