"""Evaluations side by side in one call; what nobody has evaluated yet is evaluated first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import orjson

from ragassay.analysis import comparison
from ragassay.analysis.sides import Side, file_names
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import RunConfig
from ragassay.core.report import ReportWithResults, run_and_system
from ragassay.datasets.readers import FORMATS
from ragassay.evaluation.inputs import Inputs
from ragassay.metrics.metric import names_of
from ragassay.reporting.objects import Comparison
from ragassay.sdk.evaluation import configured, evaluated, notice_unscored, read_inputs, runtime_for
from ragassay.sdk.loop import finished
from ragassay.sdk.options import RunOptions
from ragassay.sdk.progress import Reporter
from ragassay.sdk.references import is_stored_dataset, resolve
from ragassay.storage.folder import FolderRun


class Unevaluated(NamedTuple):
    """Rows with responses, and how they are to be evaluated; ``system`` and ``name`` as a ``Side`` has them."""

    inputs: Inputs
    spec: RunConfig
    system: str | None = None
    name: str | None = None


def compare(
    a: Any,
    b: Any = None,
    *,
    metrics: str | Sequence[Any] | None = None,
    baseline: str | None = None,
    alpha: float | None = None,
    correction: str | None = None,
    examples: int = 3,
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[RunOptions],
) -> Comparison:
    """Compare b with a, or the systems of a with the first of them.

    a, b: reports; what the command line calls a run ("last", an id, RUN#SYSTEM, a report.json); or rows as ``evaluate``
    takes them, datasets included, evaluated with ``options`` first. Rows are matched by ids, else by the query's text.
    metrics: what to compare, default all that both have. baseline: the name of another first system.
    alpha, correction: of p for the number of tests ("holm", "bh", "bonferroni", "none"); default: the baseline's own.
    examples: rows listed for each metric. progress: called with the rows evaluated and those to evaluate.
    Raises BadInput where the two have nothing in common.
    """
    metric_names = None if metrics is None else names_of(metrics)
    references = [one for one in (a, b) if one is not None]

    def configure(data: Any) -> ProjectConfig:
        configuration = configured(data, {**options, "metrics": metric_names})
        if len(references) > 1 and options.get("systems") is None:  # those of a file are about its own data
            configuration = configuration.model_copy(update={"systems": {}})
        return configuration

    sides = _named(sides_of(references, configure, Reporter()))
    new = [side for side in sides if isinstance(side, Unevaluated)]
    if options and not new:
        raise BadSettings(f"{', '.join(options)}: all that is compared is evaluated already", hint="leave it out")
    if options.get("systems") is not None and len(new) > 1:
        hint = "to compare systems on the same data: compare(data, systems={...})"
        raise BadSettings("each of the two brings its own responses", where="systems", hint=hint)
    reporter = Reporter(progress, total=sum(len(side.inputs.samples) * len(side.inputs.systems) for side in new))
    terms: dict[str, Any] = {"alpha": alpha, "correction": correction, "examples": examples}
    result, made = compared(sides, reporter, baseline=baseline, metrics=metric_names, **terms)
    for report in made:
        notice_unscored(report, reporter)
    return result


def sides_of(
    references: Sequence[Any],
    configure: Callable[[Any], ProjectConfig],
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
            (place, system), name = text, names.get(Path(text[0]))
            if not _is_data(Path(place)) and not is_stored_dataset(place):
                sides.append(resolve(str(reference), server).side(name))
                continue
            if place in rows:
                raise BadSettings(f"{place} is named twice", hint="name another file, or a run")
            rows.append(place)
            reference, name = place, name or place
        configuration = configure(reference)
        read = read_inputs(configuration, reporter)
        sides.append(Unevaluated(read, configuration.evaluation, system, name or configuration.name))
    return sides


def _is_data(path: Path) -> bool:
    """Does a file hold rows, to judge by its extension and, where that is .json, by what is no document of ours?"""
    suffix = path.suffix.lower()
    if not path.is_file() or not any(suffix in form.extensions for form in FORMATS.values()):
        return False
    if suffix not in FORMATS["json"].extensions:
        return True
    try:
        document = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        return False
    return not (isinstance(document, dict) and isinstance(document.get("kind"), str))


def compared(
    sides: Sequence[Side | Unevaluated],
    reporter: Reporter,
    evaluating: Callable[[Unevaluated], object] = lambda _: None,
    **terms: Any,
) -> tuple[Comparison, list[ReportWithResults]]:
    """Compare all sides, after evaluating one after the other those that need it; returns the reports that were made too.

    A budget is that of all evaluations together. ``evaluating`` is called before each. ``terms``, those of
    ``comparison.compare``, are checked first; raises what that and an evaluation raise.
    """
    comparison.check_terms(terms["alpha"], terms["correction"], terms["examples"])
    runtime = runtime_for(*(side.inputs for side in sides if isinstance(side, Unevaluated)))
    runs: list[FolderRun] = []
    reports: list[ReportWithResults] = []
    chosen: list[Side] = []
    for side in sides:
        if isinstance(side, Unevaluated):
            evaluating(side)
            run, report = finished(partial(evaluated, runtime, side.spec, side.inputs, reporter, others=runs))
            runs.append(run)
            reports.append(report)
            side = Side(report, side.system, side.name)
        chosen.append(side)
    return Comparison(**dict(comparison.compare(chosen, **terms))), reports


def _named(sides: Sequence[Side | Unevaluated]) -> list[Side | Unevaluated]:
    """The sides under their names: that of a run's configuration, else ``a`` and ``b`` where one has none, or the same."""
    names = [
        side.name or (side.report.provenance.configuration.name if isinstance(side, Side) else None) for side in sides
    ]
    if len({*names} - {None}) < len(sides):
        names = list("ab")
    return [side._replace(name=name) for side, name in zip(sides, names, strict=False)]
