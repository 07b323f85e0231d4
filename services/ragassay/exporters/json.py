"""The whole report as one JSON document; ``ragassay schema report`` prints its schema."""

from __future__ import annotations

import orjson

from ragassay.documents import Report


def export(report: Report) -> bytes:
    """The document, indented."""
    return orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
