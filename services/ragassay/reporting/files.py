"""Reports as files: the extension picks the exporter."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from ragassay.core.errors import BadSettings, class_and_reason
from ragassay.core.report import ReportWithResults
from ragassay.reporting import csv, junit, parquet, xlsx
from ragassay.reporting.exporters import Exporters, of_document
from ragassay.reporting.report import of_report
from ragassay.reporting.tabular import printable_json

Write = TypeVar("Write", bound=Callable[[ReportWithResults], str | bytes])
_EXTENSION = re.compile(r"[A-Za-z0-9_-]{1,20}")
_OURS = ("csv", "json", "md")


def exporter(extension: str) -> Callable[[Write], Write]:
    """Register a function from a Report to text or bytes as what writes files of an extension: ``@exporter("txt")``.

    What it does wrong is an error when the file is written; the run's report is kept. It
    replaces our html, parquet, pdf, xlsx or xml. Raises BadSettings for csv, json and md, and for what is no extension.
    """
    if not isinstance(extension, str) or not _EXTENSION.fullmatch(extension) or extension.lower() in _OURS:
        what = f"exporter {extension!r}: an extension is letters and digits, and none of {', '.join(_OURS)}"
        raise BadSettings(what, hint='say it: @exporter("txt")')

    def register(write: Write) -> Write:
        EXPORTERS.add(extension, _checked(write))
        return write

    return register


def _checked(write: Any) -> Callable[[ReportWithResults], bytes]:
    """A user's exporter, with what it does wrong as one line."""

    def export(report: ReportWithResults) -> bytes:
        name, hint = getattr(write, "__name__", "exporter"), f"the report is kept: ragassay show {report.run.id}"
        try:
            written = write(report)
        except Exception as error:  # the user's code
            what = f"the exporter {name} raised {class_and_reason(error)}"
            raise BadSettings(what, hint=hint) from error
        if not isinstance(written, str | bytes):
            what = f"the exporter {name} returned a {type(written).__name__}, neither text nor bytes"
            raise BadSettings(what, hint=hint)
        return written.encode() if isinstance(written, str) else written

    return export


EXPORTERS: Exporters[ReportWithResults] = Exporters(
    "exporter",
    {
        **of_document("report", of_report),
        "csv": csv.export,
        "summary.csv": csv.figures,
        "json": printable_json,
        "parquet": parquet.export,
        "xlsx": xlsx.export,
        "xml": junit.export,
    },
    adopt=_checked,
)

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "summary.csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
}
"""Of our formats."""
FILES = tuple(form for form in MEDIA_TYPES if form not in ("json", "summary.csv"))
"""What a report or a comparison can be asked for as, beside its JSON."""
BINARY = ("parquet", "pdf", "xlsx")
"""Those that no terminal shows."""
