"""A real HTTP server on loopback that plays an OpenAI-compatible provider, faults included.

    with Provider(script=[status(429, {"Retry-After": "1"})]) as provider:   # first call fails, the others are answered
        LLM("some-model", api_base=provider.url)
        provider.log                                                         # every request that arrived

Verdicts follow from the prompt's text and the label, so two runs of the same prompt agree. Runs on its own as well:
``python tests/provider.py --port-file F --latency-ms N --log FILE`` appends and flushes a line for each request,
for tests that kill the client.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LABEL = re.compile(r"^\[(A\d+|G\d+|C\d+\.\d+)\]", re.MULTILINE)
CRITERION = re.compile(r"^\[(K\d+)\]", re.MULTILINE)
REPAIR = re.compile(r"\blabels only: ([AGK]\d+(?:, [AGK]\d+)*)")


@dataclass
class Seen:
    """One request as it arrived, and what was answered. ``t`` is in seconds on the monotonic clock."""

    n: int
    t: float
    auth: str
    body: dict[str, Any]
    status: int = 0
    done: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body.get("messages", [])

    @property
    def user(self) -> str:
        return "\n".join(m["content"] for m in self.messages if m["role"] == "user")

    @property
    def system(self) -> str:
        return "\n".join(m["content"] for m in self.messages if m["role"] == "system")

    @property
    def labels(self) -> list[str]:
        """The labels at the head of a line, in order: what a careful reader takes for our units."""
        return LABEL.findall(self.user)

    @property
    def prompt_hash(self) -> str:
        return hashlib.sha256(json.dumps(self.messages).encode()).hexdigest()[:16]

    def line(self, billed: int) -> str:
        about = {"prompt_hash": self.prompt_hash, "labels": self.labels, "authorized": bool(self.auth)}
        return json.dumps({"n": self.n, "t": self.t, **about, "status": self.status, "billed": billed})


@dataclass
class Answer:
    """What goes back over the wire. ``hang`` and ``reset`` send nothing at all."""

    content: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    raw: bytes | None = None
    hang: bool = False
    reset: bool = False
    tokens: list[tuple[str, dict[str, float]]] | None = None  # each with the chances of what might stand there
    message: str = "the provider's own words"
    code: str = "error"
    param: str | None = None


Behaviour = Callable[[Seen], Answer]


def chance(seen: Seen, label: str) -> float:
    """A number in [0, 1) that depends on the sample and the label only."""
    return int(hashlib.sha256(f"{seen.user}\0{label}".encode()).hexdigest()[:8], 16) / 2**32


def verdicts(seen: Seen) -> dict[str, Any]:
    """A complete verdict on every label of the prompt; where it asks for some labels only, on those."""
    repair = REPAIR.search(seen.user)
    every = [*(x for x in seen.labels if x[0] in "AG"), *CRITERION.findall(seen.system)]
    asked = repair.group(1).split(", ") if repair else every
    contexts = [x for x in seen.labels if x[0] == "C"]

    def evidence(label: str) -> list[str]:
        return [contexts[int(chance(seen, label) * len(contexts))]] if contexts else []

    def answer(label: str) -> dict[str, Any]:
        good, truth = chance(seen, label + "s") < 0.75, "agrees" if chance(seen, label + "t") < 0.75 else "absent"
        support = {
            "support": "supported" if good and contexts else "not_found",
            "evidence": evidence(label) if good else [],
        }
        return {"id": label, **support, "truth": truth, "why": "" if good else "no context says so"}

    def fact(label: str) -> dict[str, Any]:
        good = chance(seen, label + "c") < 0.75
        return {"id": label, "covered": "yes" if good else "no", "evidence": evidence(label), "why": ""}

    def criterion(label: str) -> dict[str, Any]:
        return {"id": label, "why": "a word too many", "step": ("partly", "mostly")[int(chance(seen, label) * 2)]}

    return {
        "answer": [answer(x) for x in asked if x[0] == "A"],
        "facts": [fact(x) for x in asked if x[0] == "G"],
        "relevance": ("partly", "mostly", "full")[int(chance(seen, "relevance") * 3)],
        "refusal": False,
        "why": "",
        **({"criteria": criteria} if (criteria := [criterion(x) for x in asked if x[0] == "K"]) else {}),
    }


def good(seen: Seen) -> Answer:
    return Answer(json.dumps(verdicts(seen)))


def edited(change: Callable[[dict[str, Any]], object]) -> Behaviour:
    """Good verdicts after ``change`` has been at them."""

    def behave(seen: Seen) -> Answer:
        reply = verdicts(seen)
        change(reply)
        return Answer(json.dumps(reply))

    return behave


def says(content: str, finish_reason: str = "stop") -> Behaviour:
    return lambda seen: Answer(content, finish_reason=finish_reason)


def missing(*labels: str) -> Behaviour:
    def drop(reply: dict[str, Any]) -> None:
        for name in ("answer", "facts", "criteria"):
            reply[name] = [entry for entry in reply.get(name, []) if entry["id"] not in labels]

    return edited(drop)


def repeated(label: str) -> Behaviour:
    """A second, contradicting entry for ``label``."""

    def repeat(reply: dict[str, Any]) -> None:
        for name, verdict, other in (("answer", "support", "contradicted"), ("facts", "covered", "partly")):
            reply[name] += [{**entry, verdict: other} for entry in reply[name] if entry["id"] == label]

    return edited(repeat)


def unknown(label: str) -> Behaviour:
    """The first entry comes under a label that nobody asked for."""
    return edited(lambda reply: reply["answer"][0].update(id=label))


def truncated(seen: Seen) -> Answer:
    content = json.dumps(verdicts(seen))
    return Answer(content[: len(content) * 2 // 3], finish_reason="length")


def malformed(seen: Seen) -> Answer:
    return Answer(json.dumps(verdicts(seen))[:-20] + ',"')


def status(code: int, headers: Mapping[str, str] | None = None, message: str = "no", kind: str = "error") -> Behaviour:
    return lambda seen: Answer(status=code, headers=headers or {}, message=message, code=kind)


def form(seen: Seen) -> str:
    """How the request asks for an object, in the words of ``ragassay.llm.capabilities.FORMS``."""
    return seen.body.get("response_format", {}).get("type", "prompt")


def takes(*forms: str, refusal: Behaviour | None = None) -> Behaviour:
    """Good verdicts where the request has one of these forms; by default the refusal of others names the form."""

    def behave(seen: Seen) -> Answer:
        if form(seen) in forms:
            return good(seen)
        return (refusal or status(400, message=f"{form(seen)}: this response_format, or tools, can't be had"))(seen)

    return behave


def refuses(parameter: str, then: Behaviour = good, code: int = 400) -> Behaviour:
    """Refuses requests with this parameter by its name, as OpenAI does; ``then`` answers the others."""
    told = f"Unsupported parameter: '{parameter}' is not supported with this model."
    return lambda seen: (
        Answer(status=code, message=told, code="unsupported_parameter", param=parameter)
        if parameter in seen.body
        else then(seen)
    )


def hang(seen: Seen) -> Answer:
    return Answer(hang=True)


def reset(seen: Seen) -> Answer:
    return Answer(reset=True)


def empty(seen: Seen) -> Answer:
    return Answer(raw=b"")


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def raw(**changes: Any) -> Behaviour:
    """A reply of which single fields can be changed or taken away."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage(10, 1),
    }
    body |= changes
    return lambda seen: Answer(raw=json.dumps(body).encode())


class Provider:
    """Serves in a thread of its own. ``script`` names the behaviour of the first calls; ``then`` that of the others."""

    def __init__(
        self,
        script: Iterable[Behaviour] = (),
        *,
        then: Behaviour = good,
        latency_s: float = 0.0,
        log: Path | None = None,
    ) -> None:
        self.script, self.then, self.latency_s = list(script), then, latency_s
        self.log: list[Seen] = []
        self.inflight = self.peak = 0
        self._file = log.open("a", encoding="utf-8") if log else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Provider:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        if self._file:
            self._file.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512, limit=2**24)

    async def _stop(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away, as a killed one does
        except asyncio.CancelledError:
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = dict(re.findall(r"(?m)^([\w-]+):[ \t]*(.*?)\r$", head.lower()))
        auth = (re.search(r"(?mi)^authorization:[ \t]*(.*?)\r$", head) or ["", ""])[1]
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        seen = Seen(len(self.log) + 1, time.monotonic(), auth, json.loads(body), headers=headers)
        self.log.append(seen)
        self.inflight += 1
        self.peak = max(self.peak, self.inflight)
        try:
            behave = self.script[seen.n - 1] if seen.n <= len(self.script) else self.then
            answer = behave(seen)
            seen.status = answer.status
            if self._file:
                billed = sum(tokens(seen, answer)) if answer.status == 200 else 0
                self._file.write(seen.line(billed) + "\n")
                self._file.flush()
            if answer.reset:
                return False
            if answer.status == 200:
                await asyncio.sleep(3600 if answer.hang else self.latency_s)
            writer.write(_wire(seen, answer))
            await writer.drain()
        finally:
            seen.done = time.monotonic()
            self.inflight -= 1
        return True


def tokens(seen: Seen, answer: Answer) -> tuple[int, int]:
    """Those of the prompt and of the reply; a token is four characters, as nowhere else."""
    return -(-sum(len(str(m["content"])) for m in seen.messages) // 4), -(-len(answer.content or "") // 4)


def _wire(seen: Seen, answer: Answer) -> bytes:
    """The bytes of an HTTP response in the form of the OpenAI API."""
    if answer.raw is not None:
        body = answer.raw
    elif answer.status != 200:
        error = {"message": answer.message, "type": answer.code, "code": answer.code, "param": answer.param}
        body = json.dumps({"error": error}).encode()
    else:
        prompt, completion = tokens(seen, answer)
        message: dict[str, Any] = {"role": "assistant", "content": answer.content}
        if "tools" in seen.body:
            function = {"name": seen.body["tools"][0]["function"]["name"], "arguments": answer.content}
            message |= {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
        if answer.tokens and seen.body.get("logprobs"):
            choice["logprobs"] = {"content": [_logprob(token, likely) for token, likely in answer.tokens]}
        if seen.body.get("stream"):
            return _streamed(seen, answer, usage(prompt, completion))
        reply = {"id": f"call-{seen.n}", "object": "chat.completion", "created": 1, "model": seen.body["model"]}
        body = json.dumps({**reply, "choices": [choice], "usage": usage(prompt, completion)}).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}
    head = f"HTTP/1.1 {answer.status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return (head + "\r\n").encode() + body


def _logprob(token: str, likely: Mapping[str, float]) -> dict[str, Any]:
    def one(text: str, chance: float) -> dict[str, Any]:
        return {"token": text, "logprob": math.log(max(chance, 1e-9)), "bytes": list(text.encode())}

    others = [one(text, chance) for text, chance in likely.items()]
    return {**one(token, likely.get(token, 1.0)), "top_logprobs": others}


def _streamed(seen: Seen, answer: Answer, spent: dict[str, Any]) -> bytes:
    """The same answer in parts of five characters, as server-sent events; usage comes last, and only where it was asked for."""
    wants_usage = seen.body.get("stream_options", {}).get("include_usage")
    head = {"id": f"call-{seen.n}", "object": "chat.completion.chunk", "created": 1, "model": seen.body["model"]}
    head |= {"usage": None} if wants_usage else {}
    content = answer.content or ""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": content[n : n + 5]} for n in range(0, len(content), 5)]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish_reason}]})
    chunks += [{**head, "choices": [], "usage": spent}] if wants_usage else []
    events = [*(json.dumps(chunk) for chunk in chunks), "[DONE]"]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (f"data: {e}\n\n".encode() for e in events))
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return start + body + b"0\r\n\r\n"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--port-file", type=Path, required=True)
    options.add_argument("--latency-ms", type=float, default=0.0)
    options.add_argument("--log", type=Path)
    chosen = options.parse_args()
    with Provider(latency_s=chosen.latency_ms / 1000, log=chosen.log) as provider:
        whole = chosen.port_file.with_suffix(".tmp")
        whole.write_text(str(provider.port))
        whole.replace(chosen.port_file)
        threading.Event().wait()


if __name__ == "__main__":
    main()
