"""What a benchmark says, as a document."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ragassay.analysis.benchmark import Benchmark, BenchmarkedDataset, Standing
from ragassay.analysis.difference import Difference
from ragassay.analysis.models import Comparison
from ragassay.core.formatting import json_document, number
from ragassay.core.models import Usage
from ragassay.core.report import Aggregate
from ragassay.reporting.comparison import metric_tables, standing_table, tables
from ragassay.reporting.document import Block, Document, Facts, Sentences
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.figures import bounds
from ragassay.reporting.markdown import to_markdown
from ragassay.reporting.summary import interrupted, missing, sections
from ragassay.reporting.tables import Table


def of_benchmark(benchmark: Benchmark, *, whole: bool = False) -> Document:
    """The datasets, each with what the systems reach, cost and take and how they differ in the summary's metrics; the summary.

    ``whole``: the summary first, every metric of each dataset, what is missing, and where the numbers come from.
    """
    parts = [_of_dataset(benchmark, dataset, one, whole=whole) for dataset, one in benchmark.datasets.items()]
    title = f"Benchmark {benchmark.name or ''}".rstrip()
    if not whole:
        return Document(title, parts=(*parts, _summary(benchmark)))
    sources = []
    for dataset, one in benchmark.datasets.items():
        source = one.report.provenance
        digest, judge = source.dataset.digest[:12], source.judge["name"]
        sources.append((dataset, f"run {one.report.run.id}, dataset {digest}, judge {judge}"))
    origins = Document("Where the numbers come from", blocks=(Facts("Runs", tuple(sources)),))
    return Document(title, parts=(_summary(benchmark), *parts, origins))


def markdown(benchmark: Benchmark) -> bytes:
    """The whole benchmark for a pull request or a wiki."""
    return to_markdown(of_benchmark(benchmark, whole=True), "benchmark")


EXPORTERS: Exporters[Benchmark] = Exporters("benchmark exporter", {"json": json_document, "md": markdown})


def _summary(benchmark: Benchmark) -> Document:
    """Per metric every system on every dataset, and on how many each beats the baseline."""
    shown = [_metric(benchmark, name) for name in benchmark.metrics]
    if benchmark.standings:
        shown.append(_standings(benchmark))
    lines = [
        f"{_count(benchmark.systems, 'system')} on {_count(benchmark.datasets, 'dataset')}, baseline {benchmark.baseline}"
    ]
    if benchmark.standings:
        corrected = "" if benchmark.correction == "none" else f", p corrected for all {benchmark.family} tests"
        lines.append(f"+ better, - worse than {benchmark.baseline}: * 0.05, ** 0.01, *** 0.001{corrected}")
    lines += _spent(benchmark)
    cautions = dict.fromkeys(caution for one in benchmark.datasets.values() for caution in one.report.cautions)
    return Document("Summary", answer=tuple(lines), notes=tuple(cautions), blocks=tuple(shown))


def _of_dataset(benchmark: Benchmark, dataset: str, one: BenchmarkedDataset, *, whole: bool) -> Document:
    report, comparison = one.report, one.comparison
    source = report.provenance
    lines = [f"{source.dataset.rows} queries, judge {source.judge['name']}, run {report.run.id}"]
    lines += [line for line in (interrupted(report),) if line]
    lines += comparison.verdict if comparison else ()
    blocks: list[Block] = []
    if whole or not comparison:
        blocks += sections(report)
    if whole:
        blocks += tables(comparison) if comparison else ()
        if gaps := tuple(missing(report)):
            blocks.append(Sentences("What is missing, and why", gaps))
    elif comparison:
        blocks += standing_table(comparison)
        blocks += metric_tables(_of_summary(comparison, benchmark.metrics))
    return Document(dataset, answer=tuple(lines), notes=tuple(_cautions(one)), blocks=tuple(blocks))


def _cautions(one: BenchmarkedDataset) -> Iterator[str]:
    if one.comparison is not None:
        yield from one.comparison.warnings
    for name, system in one.report.systems.items() if one.comparison is None else ():
        if marked := system.evaluation.suspicious:
            yield f"{name}: {marked} of {system.queries} rows are suspicious: their scores may be steered"


def _of_summary(comparison: Comparison, metrics: tuple[str, ...]) -> Comparison:
    """The comparison with these metrics only."""
    pairs = (
        pair.model_copy(update={"metrics": {name: d for name, d in pair.metrics.items() if name in metrics}})
        for pair in comparison.pairs
    )
    return comparison.model_copy(update={"pairs": tuple(pairs)})


def _metric(benchmark: Benchmark, name: str) -> Table:
    """A metric of each system on each dataset, marked where it differs from the baseline's."""
    rows = []
    for system in benchmark.systems:
        cells = [_mean(one, system, name) for one in benchmark.datasets.values()]
        rows.append((system, *cells))
    return Table(name, ("", *benchmark.datasets), tuple(rows))


def _mean(one: BenchmarkedDataset, system: str, name: str) -> str:
    """``0.63 [0.46, 0.78] +**``: better than the baseline. How many of the rows are scored where not all are."""
    mean: Aggregate | None = one.report.systems[system].metrics.get(name)
    if mean is None:
        return "not computed"
    if mean.value is None:
        return f"not scored, n=0/{mean.unscored}"
    counted = f" n={mean.n}/{mean.n + mean.unscored}" if mean.unscored else ""
    return f"{number(mean.value)} {bounds(mean.interval)}{counted}{_mark(one.comparison, system, name)}"


def _mark(comparison: Comparison | None, system: str, name: str) -> str:
    delta = _delta(comparison, system, name)
    if delta is None or delta.outcome not in ("better", "worse"):
        return ""
    return f" {'+' if delta.outcome == 'better' else '-'}{delta.mark}"


def _delta(comparison: Comparison | None, system: str, name: str) -> Difference | None:
    for pair in comparison.pairs if comparison else ():
        if comparison and comparison.sides[pair.b].system == system:
            return pair.metrics.get(name)
    return None


def _standings(benchmark: Benchmark) -> Table:
    rows = tuple((name, *(_counts(one[name]) for one in benchmark.standings.values())) for name in benchmark.metrics)
    note = "Better, worse, and no difference shown, after correction; where the data can't tell, it counts apart."
    title = f"Datasets won/lost/tied against {benchmark.baseline}"
    return Table(title, ("metric", *benchmark.standings), rows, note)


def _counts(standing: Standing) -> str:
    apart = f", {standing.unknown} unknown" if standing.unknown else ""
    return f"{standing.better}/{standing.worse}/{standing.not_shown}{apart}"


def _spent(benchmark: Benchmark) -> Iterator[str]:
    """What the judge took of all runs, and where what it would have taken came from the cache."""
    evaluations = [s.evaluation for one in benchmark.datasets.values() for s in one.report.systems.values()]
    used = Usage.total(usage for one in evaluations for usage in (one.usage, one.waste))
    if used.calls or used.cache_hits:
        cost = "unknown cost" if used.cost_usd is None else f"{number(used.cost_usd)} USD"
        tokens = used.input_tokens + used.output_tokens
        yield f"judge: {used.calls:,} calls, {tokens:,} tokens, {cost}; {used.cache_hits:,} replies from the cache"


def _count(things: Collection[str], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"
