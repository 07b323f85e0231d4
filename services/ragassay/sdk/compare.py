"""Two evaluations side by side in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ragassay.analysis import comparing
from ragassay.analysis.comparing import Unevaluated, is_data
from ragassay.analysis.sides import Side, file_names
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import EvalConfig
from ragassay.core.formatting import split_names
from ragassay.core.report import ReportWithResults, run_and_system
from ragassay.metrics.metric import name_of
from ragassay.reporting.objects import Comparison
from ragassay.sdk.evaluation import Given, configured, evaluated, notice_unscored, read_inputs, runtime_for
from ragassay.sdk.loop import finished
from ragassay.sdk.progress import Reporter
from ragassay.sdk.references import is_stored_dataset, resolve


def compare(
    a: Any,
    b: Any = None,
    *,
    metrics: str | Sequence[Any] | None = None,
    baseline: str | None = None,
    alpha: float = 0.05,
    correction: str = "holm",
    examples: int = 3,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Comparison:
    """Compare b with a, or the systems of a with the first of them.

    a, b: reports; what the command line calls a run ("last", an id, RUN#SYSTEM, a report.json); or rows as ``evaluate``
    takes them, datasets included, evaluated with ``options`` first. Rows are matched by ids, else by the query's text.
    metrics: what to compare, default all that both have. baseline: the name of another first system.
    alpha, correction: of p for the number of tests ("holm", "bh", "bonferroni", "none").
    examples: rows listed for each metric and cause. progress: called with the rows evaluated and those to evaluate.
    Raises BadInput where the two have nothing in common.
    """
    asked = (
        split_names(metrics) if isinstance(metrics, str) else None if metrics is None else list(map(name_of, metrics))
    )
    given = [one for one in (a, b) if one is not None]

    def configure(data: Any) -> tuple[ProjectConfig, Given]:
        configuration, in_memory = configured(data, options if asked is None else {**options, "metrics": asked})
        if len(given) > 1 and options.get("systems") is None:  # those of a file are about its own data
            configuration = configuration.model_copy(update={"systems": {}})
        return configuration, in_memory

    sides = _named(sides_of(given, configure, Reporter()))
    new = [side for side in sides if isinstance(side, Unevaluated)]
    if options and not new:
        raise BadSettings(f"{', '.join(options)}: all that is compared is evaluated already", hint="leave it out")
    if options.get("systems") is not None and len(new) > 1:
        hint = "to compare systems on the same data: compare(data, systems={...})"
        raise BadSettings("each of the two brings its own responses", where="systems", hint=hint)
    reporter = Reporter(progress, total=sum(side.rows for side in new))
    comparison, made = compared(
        sides, reporter, baseline=baseline, metrics=asked, alpha=alpha, correction=correction, examples=examples
    )
    for report in made:
        notice_unscored(report, reporter)
    return comparison


def sides_of(
    references: Sequence[Any],
    configure: Callable[[Any], tuple[ProjectConfig, Given]],
    reporter: Reporter,
    server: str | None = None,
) -> list[Side | Unevaluated]:
    """Everything that is compared, read before anything is evaluated.

    A reference is a Report, what the command line calls a run, a file of rows, a stored dataset, or rows; ``configure`` is
    handed one of the last three and says how it is evaluated. Raises BadSettings for a file that is named twice.
    """
    texts = [run_and_system(str(one), Path()) if isinstance(one, str | Path) else None for one in references]
    files = [Path(text[0]) for text in texts if text and Path(text[0]).is_file()]
    names = dict(zip(files, file_names(files), strict=True))
    sides: list[Side | Unevaluated] = []
    rows: list[str] = []
    for reference, text in zip(references, texts, strict=True):
        if isinstance(reference, ReportWithResults):
            sides.append(Side(reference, None, reference.provenance.configuration.name))
            continue
        system, name = None, None
        if text is not None:
            (place, system), file = text, Path(text[0])
            name = names.get(file)
            if not is_data(file) and not is_stored_dataset(place):
                sides.append(resolve(str(reference), server).side(name))
                continue
            if place in rows:
                raise BadSettings(f"{place} is named twice", hint="name another file, or a run")
            rows.append(place)
            reference, name = place, name or place
        configuration, in_memory = configure(reference)
        read = read_inputs(configuration, reporter, in_memory)
        sides.append(Unevaluated(read, configuration.evaluation, system, name or configuration.name))
    return sides


def compared(
    sides: Sequence[Side | Unevaluated],
    reporter: Reporter,
    evaluating: Callable[[Unevaluated, EvalConfig], object] = lambda *_: None,
    **terms: Any,
) -> tuple[Comparison, list[ReportWithResults]]:
    """Evaluate the sides that need it and compare all; returns the reports that were made too.

    ``evaluating`` is called before each evaluation. ``terms`` are those of ``comparing.evaluate_and_compare``.
    """
    runtime = runtime_for(*(side.inputs for side in sides if isinstance(side, Unevaluated)))

    def evaluate(side: Unevaluated, spec: EvalConfig) -> ReportWithResults:
        evaluating(side, spec)
        _, report = finished(partial(evaluated, runtime, spec, side.inputs, reporter))
        return report

    document, made = comparing.evaluate_and_compare(sides, evaluate, **terms)
    return Comparison(**dict(document)), made


def _named(sides: Sequence[Side | Unevaluated]) -> list[Side | Unevaluated]:
    """The sides under their names: that of a run's configuration, else ``a`` and ``b`` where one has none, or the same."""
    sides = [
        side._replace(name=side.name or side.report.provenance.configuration.name) if isinstance(side, Side) else side
        for side in sides
    ]
    called = {side.name for side in sides} - {None}
    if len(called) == len(sides):
        return list(sides)
    return [
        replace(side, name=name) if isinstance(side, Unevaluated) else side._replace(name=name)
        for side, name in zip(sides, "ab", strict=False)
    ]
