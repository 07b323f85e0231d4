"""Every number has bounds where it comes in, and whatever is within them is evaluated, reported and compared."""

import json
import math

import pytest
from pydantic import ValidationError

from handmade_reports import make_report, stored
from offline_runs import results_of, sample
from ragassay.analysis import gates
from ragassay.analysis.comparison import compare
from ragassay.analysis.gates import Gate
from ragassay.analysis.trends import trend
from ragassay.api.submission import JobRequest
from ragassay.config import ProjectConfig
from ragassay.core.eval_config import Budget, Price, RunConfig, Statistics
from ragassay.core.models import Response, Sample
from ragassay.metrics.metric import METRICS
from ragassay.reporting.comparison import EXPORTERS as COMPARISON_EXPORTERS
from ragassay.reporting.files import EXPORTERS

MODELS = (Sample, Response, RunConfig, ProjectConfig, JobRequest, Gate, Statistics, Price, Budget)
CHECKED_IN_CODE = {"doc_timestamps", "parameters"}
MEASURED = ("latency_ms", "retrieval_latency_ms", "generation_latency_ms", "dwell_ms")
TINY = 1e-60


def numeric(schema, path=()):
    """(path, schema) of every number in a JSON schema."""
    if isinstance(schema, dict):
        if schema.get("type") in ("number", "integer"):
            yield path, schema
        for key, part in schema.items():
            yield from numeric(part, (*path, key))
    elif isinstance(schema, list):
        for part in schema:
            yield from numeric(part, path)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_number_has_a_least_and_a_largest_value(model):
    open_ended = [
        "/".join(path)
        for path, schema in numeric(model.model_json_schema())
        if not CHECKED_IN_CODE & set(path)
        and not (
            schema.keys() & {"minimum", "exclusiveMinimum", "const", "enum"}
            and schema.keys() & {"maximum", "exclusiveMaximum", "const", "enum"}
        )
    ]
    assert open_ended == []


def largest(name):
    [(_, schema)] = numeric(Response.model_json_schema()["properties"][name])
    return schema["maximum"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("relevance_scores", {"a": 1e308}),
        ("doc_timestamps", {"a": 1e308}),
        ("doc_timestamps", {"a": 10**400}),
        ("key_facts", ["fact"] * 1001),
        ("subtopics", {str(n): ["s"] for n in range(10_001)}),
        ("response", {"retrieved_doc_ids": ["a"], "retrieved_scores": [1e308]}),
        ("response", {"latency_ms": 10**400}),
        ("relevance_scores", {"a": 5e-324}),
    ],
)
def test_what_no_metric_could_take_is_refused(name, value):
    with pytest.raises(ValidationError, match=name):
        Sample(query_id="q1", query="?", **{name: value})


SPENT = (*MEASURED, "cost_usd")
TOKENS = ("input_tokens", "output_tokens")
ORDINARY = {**dict.fromkeys(MEASURED, 120.0), "cost_usd": 0.01, "input_tokens": 100, "output_tokens": 10}
ORDINARY |= {"retrieved_scores": [0.9, 0.1], "grade": 1.0, "time": 1_700_000_000.0}
LARGEST = {name: largest(name) for name in (*SPENT, *TOKENS)}
LARGEST |= {"retrieved_scores": [1e40, -1e40], "grade": 1000.0, "time": 253_402_300_800.0}
NONE = dict.fromkeys(TOKENS, 0)
SMALLEST = {**dict.fromkeys(SPENT, TINY), **NONE, "retrieved_scores": [TINY, 0.0], "grade": TINY, "time": -6e10}
ZERO = {**dict.fromkeys(SPENT, 0.0), **NONE, "retrieved_scores": [0.0, 0.0], "grade": 0.0, "time": 0.0}
CASES = {"largest": [LARGEST], "tiny": [SMALLEST], "zero": [ZERO], "mixed": [ORDINARY, LARGEST, SMALLEST, ZERO]}


def evaluated(case, **options):
    samples = []
    for n in range(12):
        values = dict(case[n % len(case)])
        grade, time = values.pop("grade"), values.pop("time")
        response = Response(
            answer="Paris is the capital of France.",
            contexts=("Paris is the capital of France.", "Rome is old."),
            retrieved_doc_ids=("paris", "rome"),
            clicks=("paris",),
            model="priced",
            doc_ids_before_reranking=["rome", "paris"],
            **values,
        )
        samples.append(
            sample(
                n,
                response=response,
                relevance_scores={"paris": grade, "rome": TINY if n % 2 else -grade, "lyon": grade},
                relevant_doc_ids=None,
                doc_timestamps={"paris": time, "rome": 0.0, "lyon": -62_135_596_800},
                subtopics={"paris": ("a",), "rome": ("b",)},
            )
        )
    parameters = {"k": "@10", "p": "@0.8", None: ""}
    names = [f"{m.family}{parameters[m.param]}" for m in METRICS if m.kind != "quality"]
    names += ["correctness", "accurate", "exact_match"]
    results = results_of(samples, *names, accurate="correctness >= 0.5", **options)
    return make_report({"default": results}, max_grade=1000, statistics={"confidence": 0.9999})


def check_finite(document):
    if isinstance(document, float):
        assert math.isfinite(document)
    elif isinstance(document, dict | list):
        for part in document.values() if isinstance(document, dict) else document:
            check_finite(part)


@pytest.fixture(scope="module")
def ordinary():
    return evaluated([ORDINARY], max_grade=1000.0)


@pytest.mark.parametrize("case", CASES)
def test_what_is_within_bounds_is_evaluated_reported_compared_and_gated(case, ordinary):
    grades = {"max_grade": TINY, "relevant_from": TINY} if case == "tiny" else {"max_grade": 1000.0}
    extreme = evaluated(CASES[case], **grades)
    assert extreme.systems["default"].queries == 12
    assert all(exporter(extreme) for exporter in EXPORTERS)
    check_finite(json.loads(b"".join(EXPORTERS.get("json")(extreme))))
    extreme = extreme.model_copy(update={"run": extreme.run.model_copy(update={"id": "run-2"})})
    for (a, b), alpha in (((ordinary, extreme), 0.05), ((extreme, ordinary), 0.0001)):
        comparison = compare([(a, None), (b, None)], alpha=alpha)
        check_finite(comparison.model_dump())
        assert all(exporter(comparison) for exporter in COMPARISON_EXPORTERS)
    rules = [
        Gate(metric="latency_ms.p95", max=1e15),
        Gate(metric="latency_ms", max_drop=1e15),
        Gate(metric="cost_usd.total", relative_drop=1e6),
        Gate(metric="cost_usd", max_drop=0),
        Gate(metric="cost_per_accurate_answer", min=-1e15),
    ]
    check_finite(gates.check(extreme, rules, ordinary, alpha=0.0001).model_dump())
    for figure in ("latency_ms.p95", "cost_usd.total", "cost_usd", "cost_per_accurate_answer"):
        check_finite(trend(stored([ordinary, extreme] * 6), figure).model_dump())
