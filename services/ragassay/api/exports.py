"""Reports and comparisons in the formats of files, as routes answer with them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Response
from pydantic import BaseModel, Field

from ragassay.config import names
from ragassay.exporters import MEDIA_TYPES
from ragassay.render import Exporters


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
        made = exporters.make(document, self.format, names(self.fields or ""))
        return made if isinstance(made, bytes) else b"".join(made)

    def answer(self, content: bytes, name: str, headers: dict[str, str] | None = None) -> Response:
        """A file of that name, which a browser stores and does not show; JSON is none."""
        kind = MEDIA_TYPES.get(self.format.lower(), "application/octet-stream")
        saved = {"Content-Disposition": f'attachment; filename="{name}.{self.format.lower()}"'}
        return Response(content, headers=(headers or {}) | (saved if self.format != "json" else {}), media_type=kind)


def answers(schema: str) -> dict[str, Any]:
    """What OpenAPI is told of an answer that is a document of that schema, or a file."""
    texts = ("csv", "html", "md", "xml")
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    for form, kind in MEDIA_TYPES.items():
        if form not in ("json", "summary.csv"):
            of_text = {"type": "string"} if form in texts else {"type": "string", "format": "binary"}
            content[kind.partition(";")[0]] = {"schema": of_text}
    return {"content": content}
