"""Reports as files: the extension picks the exporter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ragassay.documents import Report
from ragassay.errors import BadSettings
from ragassay.exporters import csv, json, markdown
from ragassay.files import write_whole
from ragassay.registry import Registry

Exporter = Callable[[Report], bytes]

EXPORTERS: Registry[Exporter] = Registry("exporter")
EXPORTERS.add("csv", csv.export)
EXPORTERS.add("json", json.export)
EXPORTERS.add("md", markdown.export)


def exporter_for(path: Path) -> Exporter:
    """The exporter of a file's extension; raises UnknownName for one that nobody registered."""
    extension = path.suffix.removeprefix(".")
    if not extension:
        raise BadSettings(f"output {str(path)!r} has no extension", hint=f"one of: {', '.join(EXPORTERS.names())}")
    if path.is_dir():
        raise BadSettings(f"output {str(path)!r} is a folder", hint="name a file")
    if not path.parent.is_dir():
        raise BadSettings(f"output {str(path)!r}: there is no folder {str(path.parent)!r}", hint="make it first")
    return EXPORTERS.get(extension)


def export(report: Report, path: Path) -> None:
    """Write the report to a file; it is whole or absent."""
    write_whole(path, exporter_for(path)(report))
