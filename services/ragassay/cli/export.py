"""``ragassay export``: a report or a comparison that is there, as a file of any format."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.configured import Plugins, import_plugins
from ragassay.cli.evaluate import warnings_shown
from ragassay.cli.rows import Outputs, Server
from ragassay.core.errors import BadSettings

if TYPE_CHECKING:
    from ragassay.core.formatting import Exporters

Exported = Annotated[
    str,
    typer.Argument(
        metavar="RUN|COMPARISON",
        help="Run id, 'last', run folder, a job's id, or the JSON of a report or a comparison.",
    ),
]
Fields = Annotated[
    str | None, typer.Option("--fields", metavar="NAME,...", help="Only these columns of the rows, in this order.")
]
FormatName = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="The format, where the file's extension is not it.")
]
_COMPARISON = re.compile(rb'"kind":\s*"comparison"')
_HEAD = 4096  # bytes, in which a document says its kind
_BINARY = ("parquet", "pdf", "xlsx")


def export(
    what: Exported,
    output: Outputs = None,
    fields: Fields = None,
    form: FormatName = None,
    server: Server = None,
    plugin: Plugins = None,
) -> None:
    """Write a report or a comparison as csv, html, json, md, parquet, pdf, xlsx or xml (JUnit); without -o to stdout."""
    from ragassay.metrics.names import split_names

    import_plugins(plugin)
    exporters = _exporters(what)
    for path in output or ():
        exporters.for_file(path, form)
    if not output and form is None:
        known = ", ".join(exporters.names())
        raise BadSettings("name a file, -o report.html, or a format", where="--output", hint=f"formats: {known}")
    if not output and form in _BINARY and sys.stdout.isatty():
        raise BadSettings(f"a terminal can't show {form}", where="--format", hint=f"name a file: -o report.{form}")
    if form is not None:
        exporters.get(form)
    document, chosen = _document(what, server), split_names(fields) if fields else ()
    with warnings_shown("ragassay.exporters"):
        for path in output or ():
            for written in exporters.write(document, path, form=form, fields=chosen):
                typer.echo(f"wrote: {written}", err=True)
        if not output and form is not None:
            content = exporters.make(document, form, chosen)
            sys.stdout.buffer.writelines((content,) if isinstance(content, bytes) else content)


def _is_comparison(what: str) -> bool:
    path = Path(what)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return bool(_COMPARISON.search(file.read(_HEAD)))


def _exporters(what: str) -> Exporters[Any]:
    from ragassay import reporting as exporters
    from ragassay.reporting import comparison

    return comparison.EXPORTERS if _is_comparison(what) else exporters.EXPORTERS


def _document(what: str, server: str | None) -> Any:
    from ragassay.sdk.stored import open_comparison, open_report

    return open_comparison(Path(what)) if _is_comparison(what) else open_report(what, server)
