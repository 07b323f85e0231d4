"""``ragassay compare``: which system is better, by how much, and how sure that is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.errors import BadData, BadSettings, NotFound

if TYPE_CHECKING:
    from ragassay.comparisons import Comparison
    from ragassay.documents import Report
    from ragassay.stats import Correction

_CORRECTIONS = ("holm", "bh", "bonferroni", "none")

Runs = Annotated[
    list[str],
    typer.Argument(metavar="RUN[#SYSTEM]...", help="Run ids, their beginnings, 'last', run folders or report files."),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Compare with this system. [the first]")
]
Metrics = Annotated[str | None, typer.Option("--metrics", metavar="A,B", help="Metrics to compare. [all in common]")]
Alpha = Annotated[float, typer.Option("--alpha", metavar="X", help="Chance of a false finding that is accepted.")]
Correct = Annotated[
    str, typer.Option("--correction", metavar="NAME", help=f"For many tests: {', '.join(_CORRECTIONS)}.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Examples listed for each metric and cause.")]
Outputs = Annotated[list[Path] | None, typer.Option("-o", "--output", metavar="FILE", help="Also write .json, .md.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")]


def compare(
    runs: Runs,
    baseline: Baseline = None,
    metrics: Metrics = None,
    alpha: Alpha = 0.05,
    correction: Correct = "holm",
    limit: Limit = 3,
    output: Outputs = None,
    as_json: AsJson = False,
) -> None:
    """Compare the systems of a run, or of several runs, with the first one."""
    from ragassay import comparison
    from ragassay.exporters.comparison import export, exporter_for, to_json

    for path in output or ():
        exporter_for(path)
    if limit < 0:
        raise BadSettings(f"--limit must not be negative, not {limit}")
    found = comparison.compare(
        comparison.entrants([_chosen(reference) for reference in runs]),
        baseline=baseline,
        metrics=None if metrics is None else [m.strip() for m in metrics.split(",") if m.strip()],
        alpha=alpha,
        correction=_correction(correction),
        examples=limit,
    )
    for path in output or ():
        export(found, path)
    if as_json:
        sys.stdout.buffer.write(to_json(found))
        sys.stdout.buffer.flush()
    else:
        _print(found, output or [])


def _correction(name: str) -> Correction:
    """The correction of that name; ``bh`` is short for Benjamini-Hochberg."""
    known: dict[str, Correction] = {
        "holm": "holm",
        "bh": "benjamini_hochberg",
        "benjamini_hochberg": "benjamini_hochberg",
        "bonferroni": "bonferroni",
        "none": "none",
    }
    if name not in known:
        raise BadSettings(f"--correction: unknown {name!r}", hint=f"one of: {', '.join(_CORRECTIONS)}")
    return known[name]


def _chosen(reference: str) -> tuple[Report, str | None]:
    """The report that ``RUN`` or ``RUN#SYSTEM`` means, and the system where one is named."""
    if Path(reference).exists():
        return _report(reference), None
    run, hash_, system = reference.rpartition("#")
    if not hash_:
        return _report(reference), None
    if not (run and system):
        raise BadSettings(f"{reference!r} is not of the form RUN#SYSTEM", hint="write, for example, last#baseline")
    return _report(run), system


def _report(reference: str) -> Report:
    """The report of a run, or in a file."""
    from ragassay.settings import Settings
    from ragassay.store.folder import FolderStore

    path = Path(reference)
    if path.is_file():
        return _read(path)
    if path.joinpath("report.json").is_file() and not path.joinpath("run.json").is_file():
        return _read(path / "report.json")
    run = FolderStore(Settings().home).open(reference)
    if not (run.folder / "report.json").exists():
        raise NotFound(f"run {run.folder.name} has no report yet", hint=f"ragassay evaluate --resume {run.folder.name}")
    return _read(run.folder / "report.json")


def _read(path: Path) -> Report:
    from pydantic import ValidationError

    from ragassay.documents import Report

    try:
        return Report.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{where}: {first['msg'].lower()}" if where else first["msg"].lower()
        raise BadData(
            [f"{path}: not a report of this version of ragassay ({what})"],
            hint="ragassay evaluate DATA -o report.json writes one",
        ) from None
    except OSError as error:
        raise BadData([f"{path}: can't be read ({error.strerror})"]) from None


def _print(found: Comparison, outputs: list[Path]) -> None:
    """The verdict first, then the tables behind it."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ragassay.exporters.comparison import tables

    console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=120)
    for sentence in found.verdict:
        console.print(escape(sentence), soft_wrap=True)
    for warning in found.warnings:
        console.print(f"warning: {escape(warning)}", soft_wrap=True)
    for shown in tables(found):
        table = Table(title=escape(shown.title), title_justify="left", title_style="bold", box=None, pad_edge=False)
        for column in shown.columns:
            table.add_column(escape(column), overflow="fold")
        for row in shown.rows:
            table.add_row(*map(escape, row))
        console.print()
        console.print(table)
        if shown.note:
            console.print(escape(shown.note), soft_wrap=True)
    for output in outputs:
        console.print(f"also: {escape(str(output))}", soft_wrap=True)
