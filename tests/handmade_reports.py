"""Reports made by hand for tests of gates and trends: a score for each query, nothing else."""

from types import SimpleNamespace

from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Message, Rating, RequestTiming, Result, Score, Usage, Verdict
from ragassay.core.report import Provenance, ReportWithResults, Source
from ragassay.evaluation.aggregate import aggregate
from ragassay.metrics.metric import parse
from ragassay.storage.cost_records import record_of
from ragassay.storage.runs import Entry

CREATED = "2026-01-31T14:05:09.000+00:00"


def row(number, system="default", *, query=None, category=None, metadata=None, cost=None, latency=None, **scores):
    """One result; a score of None is missing because something failed."""
    return Result(
        query_id=f"q{number}",
        system=system,
        query=query or f"question {number}",
        category=category,
        metadata=metadata or {},
        cost_usd=cost,
        latency_ms=latency,
        scores={
            name: Score.absent("the judge failed", "failed") if value is None else Score(value=value)
            for name, value in scores.items()
        },
    )


def rows(values, metric="mrr", system="default", **more):
    """A row for each value, q1, q2 ..."""
    return [row(n, system, **{metric: value}, **more) for n, value in enumerate(values, 1)]


def odd_rows(system="default"):
    """Two rows of every kind that is kept: texts, numbers and parts that are written in an unusual way."""
    plain, label = row(0, system, mrr=0.5), Rating(rater="people", role="reference", scores={"mrr": 1.0})
    failed = row(0, system, mrr=None).model_copy(update={"error": "no answer within 30 s", "responded": False})
    texts = [
        "\u00c4rger \u65e5\u672c \U0001f600",
        'a "quote", a \\ and </script>',
        "\x00\x1b[2J\x7f\t\n\r\u2028\u202e\ufeff\uffff",
    ]
    numbers = [2**64 - 1, -(2**63), 0.1 + 0.2, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, -0.0, 100.0, True, None]
    judged = Rating(rater="a", verdict=Verdict(judge="a", why=texts[1]), usage=Usage(calls=1, cost_usd=None))
    changes = [
        {},
        *({"query": text, "answer": text, "metadata": {text: [text]}} for text in texts),
        {"metadata": {f"own {n}": number for n, number in enumerate(numbers)}},
        {"scores": {"mrr": Score(value=1e-9, reason=texts[0], details={"of": {"each": numbers}})}},
        {"history": (Message(role="user", content=texts[2]),), "timing": RequestTiming(attempts=2)},
        {"ratings": (judged, label), "verdict": judged.verdict, "evaluation": judged.usage, "left_out": ("seed",)},
        {"cost_usd": 0.1, "latency_ms": 12.0, "relevant": 0, "relevant_ranks": (), "retrieved_doc_ids": ("d",)},
    ]
    of_kinds = 2 * [failed, *(plain.model_copy(update=change) for change in changes)]
    return [one.model_copy(update={"query_id": f"q{n}"}) for n, one in enumerate(of_kinds)]


def make_report(
    systems, *, expected=None, run="run-1", created=CREATED, dataset="france", digest="0" * 64, judge=None, **spec
):
    """The report on rows by system, or on a plain list of rows as ``default``."""
    if isinstance(systems, list):
        systems = {"default": systems}
    expected = max(map(len, systems.values())) if expected is None else expected
    names = tuple(dict.fromkeys(name for found in systems.values() for one in found for name in one.scores))
    provenance = Provenance(
        ragassay="0",
        code_digest="",
        python="3",
        packages={},
        dataset=Source(name=dataset, digest=digest, rows=expected),
        systems={},
        judge=judge or {"name": "local"},
        embeddings=None,
        metrics=tuple(parse(name).name for name in names),
        configuration=RunConfig(**spec),
        configuration_digest="",
    )
    return ReportWithResults.of(aggregate(run, created, provenance, systems, expected=expected), systems)


def mrr_report(values, **more):
    """A report of one system on ``mrr``."""
    return make_report(rows(values), **more)


def stored(reports):
    """The reports as runs that trends and costs choose from, newest first; they come oldest first."""
    for report in reversed(reports):
        source = report.provenance
        record = SimpleNamespace(
            kind="evaluation",
            created_at=report.run.created_at,
            dataset=source.dataset,
            systems=report.systems,
            spec=source.configuration,
        )
        of_run = {"report": lambda _, report=report: report, "costs": lambda report=report: record_of(report)}
        yield Entry(report.run.id, "finished", SimpleNamespace(record=record, **of_run))
