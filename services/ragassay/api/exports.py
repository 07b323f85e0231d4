"""Reports and comparisons in the formats of files, as routes answer with them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, Field

from ragassay.dashboard.site import file
from ragassay.metrics.names import split_names
from ragassay.reporting import MEDIA_TYPES
from ragassay.reporting.exporters import Exporters


class FileForm(BaseModel):
    """Query parameters: in which format, and which columns of it."""

    format: Annotated[str, Field(max_length=30, description=f"the form of the answer: {', '.join(MEDIA_TYPES)}")] = (
        "json"
    )
    fields: Annotated[
        str | None, Field(max_length=2000, description="only these columns of the rows, with commas between them")
    ] = None

    def written(self, exporters: Exporters[Any], document: Any) -> bytes:
        """The document in that form; raises UnknownName, BadSettings, MissingExtra."""
        return exporters.whole(document, self.format, split_names(self.fields or ""))

    def answer(self, content: bytes, name: str) -> Response:
        """A file of that name; JSON is none."""
        if self.format == "json":
            return Response(content, media_type=MEDIA_TYPES["json"])
        return file(content, name, self.format.lower())


def answers(schema: str) -> dict[str, Any]:
    """What OpenAPI is told of an answer that is a document of that schema, or a file."""
    texts = ("csv", "html", "md", "xml")
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    for form, kind in MEDIA_TYPES.items():
        if form not in ("json", "summary.csv"):
            of_text = {"type": "string"} if form in texts else {"type": "string", "format": "binary"}
            content[kind.partition(";")[0]] = {"schema": of_text}
    return {"content": content}
