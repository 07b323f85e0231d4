"""Samples, a judge and a run for tests that need them."""

import orjson

from ragassay.documents import Source
from ragassay.embeddings import FakeEmbedder
from ragassay.engine import Tools
from ragassay.judges.verdict import Claims, settle, units
from ragassay.ledger import MemoryLedger
from ragassay.models import FactVerdict, Judgement, Response, Sample, SentenceVerdict, Usage
from ragassay.prices import Prices

GOOD = {
    "query_id": "q1",
    "query": "What is the capital of France?",
    "answer": "Paris is the capital of France.",
    "contexts": ["Paris is the capital of France."],
    "ground_truth_answer": "Paris.",
    "relevant_doc_ids": ["d1"],
    "retrieved_doc_ids": ["d1", "d2"],
}


def sample(number=1, *, answer="Paris is the capital. It lies on the Seine.", **more):
    """A query about France with a response; ``more`` overrides fields of either."""
    response = {
        "answer": answer,
        "contexts": ["Paris is the capital of France. It has two million people."],
        "retrieved_doc_ids": ["paris", "lyon"],
        "model": "gpt-4o-mini",
        "input_tokens": 1000,
        "output_tokens": 100,
        "latency_ms": 100.0 * number,
    }
    fields = {
        "query_id": f"q{number}",
        "query": "What is the capital of France?",
        "ground_truth_answer": "Paris.",
        "relevant_doc_ids": ["paris"],
        "category": "factual" if number % 2 else "conceptual",
        "difficulty": "easy",
    }
    response |= {k: v for k, v in more.items() if k in Response.model_fields and k not in ("metadata",)}
    fields |= {k: v for k, v in more.items() if k in Sample.model_fields}
    return Sample(**{**fields, "response": more.get("response", Response(**response))})


FINE = {"support": "supported", "truth": "agrees"}


class ScriptedJudge:
    """Says that every unit is fine, in one call a sample, unless told otherwise for a query."""

    name = "scripted"
    settings = {"version": 1}

    def __init__(self, **judgements):
        self.judgements, self.asked = judgements, []

    async def judge(self, samples, ledger):
        return [self._one(sample) for sample in samples]

    def _one(self, sample):
        self.asked.append(sample.query_id)
        if sample.query_id in self.judgements:
            return self.judgements[sample.query_id]
        asked = units(sample)
        evidence = tuple(asked.contexts)[:1]
        claims = Claims(
            sentences={
                i: SentenceVerdict(id=i, text="", support="supported", evidence=evidence, truth="agrees")
                for i in asked.answer
            },
            facts={i: FactVerdict(id=i, text="", covered="yes", evidence=evidence) for i in asked.facts},
            relevance="full",
            refusal=False,
        )
        usage = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.001)
        return Judgement(verdict=settle(claims, asked, self.name), usage=usage)


def tools(judge=None, ledger=None):
    """Everything an evaluation needs, without a model or a network."""
    return Tools(judge or ScriptedJudge(), ledger or MemoryLedger(), Prices(), FakeEmbedder())


def source(samples, name="france"):
    """Provenance of samples made up in a test."""
    return Source(name=name, digest="0" * 64, rows=len(samples))


def lines(path, rows):
    """Write rows as JSON Lines; returns the path."""
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def steady(report):
    """A report's document without ids, timestamps and measured evaluation durations."""
    document = {name: value for name, value in report.items() if name != "run"}
    for system in document["systems"].values():
        bills = [system["evaluation"]["usage"], system["evaluation"]["waste"]]
        for result in system["results"]:
            result["duration_ms"] = 0
            bills += [result["evaluation"], result["waste"]]
        for bill in bills:
            bill["latency_ms"] = 0
    return document
