"""Samples, a judge and a run for tests that need them."""

import asyncio

import orjson

from fakes import FakeEmbedder
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import FactVerdict, Rating, Response, Sample, SentenceVerdict, Usage, Verdict
from ragassay.core.report import Source
from ragassay.core.settings import Settings
from ragassay.datasets.dataset import digest_of_responses
from ragassay.evaluation.aggregate import finish
from ragassay.evaluation.evaluate import ScoringConfig, evaluate
from ragassay.evaluation.inputs import Inputs, SystemInput
from ragassay.evaluation.local import work_through
from ragassay.evaluation.prepare import choose_metrics, describe, prepare
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.panel import Panel, Rater
from ragassay.judges.verdict import check_verdict, number_units
from ragassay.llm.journal import MemoryJournal
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.metric import parse
from ragassay.storage.folder import FolderStore, new_run_id

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


class ScriptedJudge:
    """Says that every unit is fine, in one call a sample, unless told otherwise for a query."""

    name = "scripted"
    settings = {"version": 1}

    def __init__(self, **ratings):
        self.ratings, self.asked = ratings, []

    async def judge(self, samples, journal):
        return [self._one(sample) for sample in samples]

    def _one(self, sample):
        self.asked.append(sample.query_id)
        if sample.query_id in self.ratings:
            return self.ratings[sample.query_id]
        units = number_units(sample)
        evidence = tuple(units.contexts)[:1]
        told = {"text": "", "evidence": evidence}
        sentences = [SentenceVerdict(id=label, support="supported", truth="agrees", **told) for label in units.answer]
        facts = [FactVerdict(id=label, covered="yes", **told) for label in units.facts]
        raw = Verdict(judge="", sentences=tuple(sentences), facts=tuple(facts), relevance="full", refusal=False)
        usage = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.001)
        return Rating(verdict=check_verdict(raw, units, self.name), usage=usage)


def results_of(samples, *metrics, judge=None, **options):
    """The results of a chunk, by a scripted judge; ``options`` are those of a specification."""
    spec = RunConfig(**options)
    chosen = [parse(name, custom_metrics(spec)) for name in metrics] or choose_metrics(
        spec, {"default": samples}, "france"
    )
    config = FakeRuntime(judge).scoring(spec, chosen)
    return asyncio.run(evaluate(samples, "default", config, MemoryJournal()))


class FakeRuntime(Runtime):
    """Judges by a script, without a model or a network, or raises."""

    def __init__(self, judge=None, error=None):
        super().__init__(Settings.model_construct())
        self.judge, self.error = judge, error

    def scoring(self, spec, metrics=()):
        if self.error:
            raise self.error
        return ScoringConfig(spec, tuple(metrics), Panel([Rater((self.judge or ScriptedJudge(),))]), FakeEmbedder())


def new_run(root, samples, spec=None, *, systems=("default",), dataset=None, judge=None):
    """A run in a folder, written down and not begun; all systems give the samples' responses."""
    responses = {s.query_id: s.response for s in samples if s.response}
    digest = {"digest": digest_of_responses(responses)}
    given = {name: SystemInput(source_of(responses, name).model_copy(update=digest), responses) for name in systems}
    inputs = Inputs(dataset or source_of(samples), samples, given)
    used, spec = FakeRuntime(judge), spec or RunConfig()
    record = describe(used, prepare(spec, inputs, new_run_id(inputs.dataset.name)))
    return FolderStore(root).create(record, samples, inputs.responses())


def evaluated(run, judge=None):
    """The report of a run, after its pending chunks are worked on."""
    asyncio.run(work_through(FakeRuntime(judge), run, MemoryJournal()))
    return finish(run, 0)


def source_of(samples, name="france"):
    """Provenance of samples made up in a test."""
    return Source(name=name, digest="0" * 64, rows=len(samples))


def write_jsonl(path, rows):
    """Write rows as JSON Lines; returns the path."""
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def differences(one, other, where="", ignored=()):
    """Where two documents differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted((one.keys() | other.keys()) - {*ignored}):
            yield from differences(one.get(name), other.get(name), f"{where}.{name}", ignored)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for n, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{where}[{n}]", ignored)
    elif one != other:
        yield f"{where}: {str(one)[:200]} instead of {str(other)[:200]}"


def without_times(report):
    """A report's document without ids, timestamps and measured evaluation durations."""
    document = {name: value for name, value in report.items() if name != "run"}
    for name, system in document["systems"].items():
        bills = [system["evaluation"]["usage"], system["evaluation"]["waste"]]
        for result in document.get("results", {}).get(name, ()):
            result["duration_ms"] = 0
            bills += [result["evaluation"], result["waste"]]
        for bill in bills:
            bill["latency_ms"] = 0
    return document
