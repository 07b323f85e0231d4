"""The OpenAPI document as a page of plain HTML: no script, nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #8882; padding: .6rem; overflow-x: auto; max-height: 24rem; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; }
h3 { margin: 2rem 0 0; border-top: 1px solid #8886; padding-top: 1rem; }
:root { color-scheme: light dark; }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def show(request: Request) -> HTMLResponse:
    """The page on the API; its policy allows its own style and nothing else."""
    return HTMLResponse(page(request.app.openapi()), headers={"Content-Security-Policy": _POLICY})


def page(document: dict[str, Any]) -> str:
    """The page that an OpenAPI document makes: each operation with an example, then each schema."""
    info, schemas = document["info"], document["components"]["schemas"]
    operations = [
        _operation(method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(f"{info['title']} {info['version']}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        '<meta name="viewport" content="width=device-width">'
        f'<h1>{title}</h1>{_text(info["description"])}<p>For programs: <a href="openapi.json">openapi.json</a></p>'
        f"<h2>Operations</h2>{''.join(operations)}<h2>Schemas</h2>"
        f"{''.join(_schema(name, schema) for name, schema in sorted(schemas.items()))}</html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    parameters = [
        (f"<code>{escape(p['name'])}</code> in {p['in']}", _kind(p["schema"]), escape(p.get("description", "")))
        for p in operation.get("parameters", ())
    ]
    answers = [
        (escape(status), escape(answer["description"]), _kinds_of(answer))
        for status, answer in operation["responses"].items()
    ]
    examples = [
        content["example"]
        for answer in operation["responses"].values()
        for content in answer.get("content", {}).values()
        if "example" in content
    ]
    return (
        f'<h3 id="{escape(operation["operationId"])}"><code>{method} {escape(path)}</code></h3>'
        f"<p><b>{escape(operation['summary'])}</b></p>{_text(operation.get('description', ''))}"
        f"{f'<p>Body: {_kind(body)}</p>' if body else ''}{_table(parameters)}{_table(answers)}"
        f"{''.join(f'<details><summary>Example</summary>{_json(example)}</details>' for example in examples[:1])}"
    )


def _kinds_of(answer: dict[str, Any]) -> str:
    return " or ".join(_kind(content.get("schema", {})) for content in answer.get("content", {}).values())


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(key)}</code>{' (required)' if key in required else ''}",
            _kind(value) + (f" = <code>{escape(json.dumps(value['default']))}</code>" if "default" in value else ""),
            escape(value.get("description", "")),
        )
        for key, value in schema.get("properties", {}).items()
    ]
    example = f"<details><summary>Example</summary>{_json(schema['example'])}</details>" if "example" in schema else ""
    return f'<h3 id="{escape(name)}">{escape(name)}</h3>{_text(schema.get("description", ""))}{_table(rows)}{example}'


def _kind(schema: dict[str, Any]) -> str:
    """What values a schema takes, in a few words; a named one is a link."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[key])))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"<code>{escape(json.dumps(v))}</code>" for v in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "anything")))


def _text(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())


def _json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>" if rows else ""
