"""Reports as files: the extension picks the exporter."""

from __future__ import annotations

from ragassay.documents import Report
from ragassay.exporters import csv, markdown
from ragassay.render import Exporters, json_document

EXPORTERS: Exporters[Report] = Exporters("exporter")
EXPORTERS.add("csv", csv.export)
EXPORTERS.add("json", json_document)
EXPORTERS.add("md", markdown.export)
