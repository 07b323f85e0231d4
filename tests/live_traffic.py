"""Spans of RAG requests as programs send them, and rounds of a beat and of workers over them."""

import hashlib
import json

from ragassay.core.eval_config import RunConfig
from ragassay.datasets.traces import TraceSpan
from ragassay.live.models import LiveRule, StoredStream
from ragassay.live.otlp import Received

QUESTION = "When do backups start, and for how long are they kept?"
GOOD = "Backups start at 02:00 UTC and are kept for 30 days."
WRONG = "The cafeteria serves soup on Mondays."


def trace_id(n, of="t"):
    return hashlib.sha256(f"{of}{n}".encode()).hexdigest()[:32]


def spans_of(
    n, *, answer=GOOD, context=GOOD, question=QUESTION, error=None, root=True, of="t", began=1.7e12, **attributes
):
    """The spans of one request: a chain, its retrieval and its model."""
    trace = trace_id(n, of)
    given = {"input.value": f"{question} ({n})", **attributes}
    if answer is not None:
        given["output.value"] = answer
    documents = {"retrieval.documents.0.document.id": f"d{n}", "retrieval.documents.0.document.content": context}
    made = [
        TraceSpan(trace, "b", "a", "RETRIEVER", began + 1, began + 11, documents, name="search"),
        TraceSpan(trace, "c", "a", "LLM", began + 12, began + 90, {"llm.cost.total": 0.001}, name="generate"),
    ]
    if root:
        made.append(TraceSpan(trace, "a", None, "CHAIN", began, began + 100 + n % 7, given, error, name="answer"))
    return made


def received(*requests, stream="shop"):
    return [Received(stream, span) for spans in requests for span in spans]


_KINDS = {str: "stringValue", float: "doubleValue", int: "intValue"}


def otlp_lines(requests, stream="shop"):
    """The spans of requests as JSON Lines of OTLP, a batch a line."""

    def written(span):
        kind = {"openinference.span.kind": span.kind} if span.kind else {}
        pairs = ({**kind, **span.attributes}).items()
        return {
            "traceId": span.trace,
            "spanId": span.id,
            "parentSpanId": span.parent or "",
            "name": span.name,
            "startTimeUnixNano": str(int(span.began_ms * 1e6)),
            "endTimeUnixNano": str(int(span.ended_ms * 1e6)),
            "status": {"code": 2, "message": span.error} if span.error else {},
            "attributes": [{"key": key, "value": {_KINDS[type(value)]: value}} for key, value in pairs],
        }

    service = {"attributes": [{"key": "service.name", "value": {"stringValue": stream}}]}
    batches = ([written(span) for span in spans] for spans in requests)
    documents = ({"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": spans}]}]} for spans in batches)
    return "".join(json.dumps(document) + "\n" for document in documents)


def set_rule(live, stream="shop", *, metrics=("faithfulness",), judges=("local",), **rule):
    spec = RunConfig(name=stream, metrics=metrics, judges=judges)
    live.store.put_stream(stream, StoredStream(rule=LiveRule(**{"rate": 1.0, **rule}), spec=spec))


def work_all(live, queue, rounds=6):
    """Rounds of a beat, and of workers, until nothing is left to do."""
    for _ in range(rounds):
        live.tick_all()
        while queue.sent:
            live.jobs.work(queue.sent.pop(0))
        while queue.finalized:
            live.jobs.finalize(queue.finalized.pop(0))
