"""Reports as files: the extension picks the exporter."""

from __future__ import annotations

from ragassay.documents import Report
from ragassay.exporters import csv, markdown
from ragassay.exporters.rows import printable_json
from ragassay.render import Exporters

EXPORTERS: Exporters[Report] = Exporters("exporter")
EXPORTERS.add("csv", csv.export)
EXPORTERS.add("json", printable_json)
EXPORTERS.add("md", markdown.export)
