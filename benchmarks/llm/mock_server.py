"""An OpenAI-compatible server with a fixed latency, which answers any JSON schema and counts what it was asked.

Routes    POST /v1/chat/completions, /v1/responses and /v1/embeddings
Schemas   of ``response_format``, of a tool, or the first that stands in the prompt as JSON; else an example of one there
Choices   where the prompt has "name": "one|other", a text of that name is one of them
Texts     where none is asked for: the list that stands in the prompt, else a number, else "Fine."
Figures   GET /__bench/stats
Units     where a prompt carries labels at the head of lines ([A1] answer sentences, [G1] facts, [C1.1] context
          sentences) and an array of the schema has objects with an ``id``, every label is answered once; arrays named
          ``facts...`` take the G labels, others the A labels; ``evidence`` gets a label that exists
Tokens    characters / 4, rounded up: a real tokenizer would have to be downloaded
Faults    in percent of the calls, drawn from the call's number, so they repeat from run to run
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import base64
import hashlib
import json
import math
import random
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

WORDS = "service region retention policy request limit backup window default storage node owner review quota".split()
GOOD_SHARE = 0.8
FAULTS = ("429", "hang", "malformed")
RETRY_AFTER_S, HANG_S = 1, 900


def tokens(text: str) -> int:
    return max(1, math.ceil(len(text) / 4))


class Writer:
    """Fills a schema with values that follow from the prompt."""

    def __init__(self, text: str, definitions: dict[str, Any] | None = None) -> None:
        self.definitions = definitions or {}
        self.dice = random.Random(hashlib.sha256(text.encode()).hexdigest())
        self.choices = dict(re.findall(r'"(\w+)": "(\w+(?:\|\w+)+)"', text))
        self.labels = {kind: re.findall(rf"(?m)^\[({kind}\d[\d.]*)\]", text) for kind in "AGC"}

    def fill(self, schema: dict[str, Any], name: str = "") -> Any:
        for choice in schema.get("anyOf", []):
            if choice.get("type") != "null":
                return self.fill(choice, name)
        if "$ref" in schema:
            return self.fill(self.definitions[schema["$ref"].rpartition("/")[2]], name)
        if "enum" in schema:
            return schema["enum"][0] if self.dice.random() < GOOD_SHARE else schema["enum"][-1]
        match schema.get("type"):
            case "object":
                return {key: self.fill(value, key) for key, value in schema.get("properties", {}).items()}
            case "array":
                return self._array(schema["items"], name)
            case "boolean":
                return self.dice.random() < (0.1 if "refus" in name else GOOD_SHARE)
            case "integer" | "number":
                return int(self.dice.random() < GOOD_SHARE)
        if name in self.choices:
            return self.fill({"enum": self.choices[name].split("|")})
        return " ".join(self.dice.choices(WORDS, k=14)).capitalize() + "."

    def _array(self, items: dict[str, Any], name: str) -> list[Any]:
        if name == "evidence" and self.labels["C"]:
            return [self.dice.choice(self.labels["C"])]
        labels = self.labels["G" if name.startswith("fact") else "A"]
        if "id" in items.get("properties", {}):
            return [{**self.fill(items), "id": label} for label in labels]
        return [self.fill(items) for _ in range(6)]


def schema_of(body: dict[str, Any], text: str) -> dict[str, Any] | None:
    """The schema of the reply that is asked for, wherever it stands; None where none does."""
    if tools := body.get("tools"):
        return dict(tools[0]["function"]["parameters"])
    if asked := body.get("response_format", {}).get("json_schema"):
        return dict(asked["schema"])
    example = None
    for found in objects(text):
        if isinstance(found.get("properties"), dict):
            return found
        example = found
    return like(example) if example else None


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, those inside another one left out."""
    start, decoder = text.find("{"), json.JSONDecoder()
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
        except ValueError:
            end = start + 1
        else:
            if isinstance(found, dict):
                yield found
        start = text.find("{", end)


def like(value: Any) -> dict[str, Any]:
    """The schema that an example has."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: like(one) for key, one in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": like(value[0] if value else "")}
    kinds = {bool: "boolean", int: "integer", float: "number"}
    return {"type": kinds.get(type(value), "string")}


def plain(text: str) -> str:
    """The reply to a prompt without a schema."""
    for found in re.findall(r"\[.+\]", text):
        try:
            return str(list(ast.literal_eval(found)))
        except (ValueError, SyntaxError):
            continue
    return "7" if "integer" in text else "Fine."


def words_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def response_of(body: dict[str, Any], content: str, call: dict[str, Any], identity: str) -> dict[str, Any]:
    """A reply of /v1/responses."""
    used = call["prompt_tokens"], call["completion_tokens"]
    text = {"type": "output_text", "text": content, "annotations": []}
    return {
        "id": identity,
        "object": "response",
        "created_at": int(time.time()),
        "model": body["model"],
        "status": "completed",
        "output": [{"id": "1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}],
        "usage": {"input_tokens": used[0], "output_tokens": used[1], "total_tokens": sum(used)},
    }


class Mock:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.calls: list[dict[str, Any]] = []
        self.embedded = 0

    def fault(self) -> str | None:
        drawn, limit = random.Random(f"7-{len(self.calls)}").random(), 0.0
        for name in FAULTS:
            limit += getattr(self.options, f"p{name}") / 100
            if drawn < limit:
                return name
        return None

    async def chat(self, request: web.Request) -> web.Response:
        began, body = time.monotonic(), await request.json()
        if "input" in body:  # /v1/responses
            body |= {"messages": body["input"], "response_format": {"json_schema": body.get("text", {}).get("format")}}
        text = "\n".join(map(words_of, body["messages"]))
        schema = schema_of(body, text)
        asked = body.get("response_format", {}).get("json_schema") or ""
        written = json.dumps(body.get("tools") or "") + json.dumps(asked)
        call = {"began": began, "fault": self.fault(), "prompt_tokens": tokens(text + written), "completion_tokens": 0}
        self.calls.append(call)
        return await self.answer(body, text, schema, call)

    async def answer(self, body: dict[str, Any], text: str, schema: Any, call: dict[str, Any]) -> web.Response:
        definitions = (schema or {}).get("$defs", {})
        content = json.dumps(Writer(text, definitions).fill(schema)) if schema else plain(text)
        if call["fault"] == "429":
            wait = {"Retry-After": str(RETRY_AFTER_S)}
            return web.json_response({"error": {"message": "too many requests"}}, status=429, headers=wait)
        if call["fault"] == "malformed":
            content = content[: len(content) * 3 // 5] + ',"'
        late = HANG_S if call["fault"] == "hang" else self.options.latency_ms / 1000
        await asyncio.sleep(call["began"] + late - time.monotonic())
        if call["fault"] == "hang":
            return web.json_response({"error": {"message": "out of order"}}, status=500)
        call["completion_tokens"] = tokens(content)
        if "input" in body:
            return web.json_response(response_of(body, content, call, f"call-{len(self.calls)}"))
        message = {"role": "assistant", "content": content}
        if tools := body.get("tools"):
            function = {"name": tools[0]["function"]["name"], "arguments": content}
            message |= {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        usage = {key: call[key] for key in ("prompt_tokens", "completion_tokens")}
        reply = {
            "id": f"call-{len(self.calls)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {**usage, "total_tokens": sum(usage.values())},
        }
        return web.json_response(reply)

    async def embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        await asyncio.sleep(self.options.latency_ms / 1000)
        self.embedded += 1
        data = []
        for n, text in enumerate(texts):
            vector = [random.Random(str(text)).random() for _ in range(64)]
            packed = base64.b64encode(struct.pack("<64f", *vector)).decode()
            chosen = packed if body.get("encoding_format") == "base64" else vector
            data.append({"object": "embedding", "index": n, "embedding": chosen})
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def stats(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "calls": len(self.calls) + self.embedded,
                "prompt_tokens": sum(call["prompt_tokens"] for call in self.calls),
                "completion_tokens": sum(call["completion_tokens"] for call in self.calls),
                "faults": {name: sum(call["fault"] == name for call in self.calls) for name in FAULTS},
            }
        )


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port-file", type=Path, required=True)
    options.add_argument("--latency-ms", type=float, default=300)
    for name in FAULTS:
        options.add_argument(f"--p{name}", type=float, default=0, help="percent of the calls")
    chosen = options.parse_args()
    mock, app = Mock(chosen), web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", mock.chat)
    app.router.add_post("/v1/responses", mock.chat)
    app.router.add_post("/v1/embeddings", mock.embed)
    app.router.add_get("/__bench/stats", mock.stats)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    whole = chosen.port_file.with_suffix(".tmp")
    whole.write_text(str(runner.addresses[0][1]))
    whole.replace(chosen.port_file)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
