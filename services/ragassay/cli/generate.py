"""``ragassay data generate``: a dataset of questions that are made from documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import AsJson, command_line, option
from ragassay.cli.datasets import data as data
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import listed

if TYPE_CHECKING:
    from ragassay.testset import GenerationReport


@data.command("generate")
def generate(
    documents: Annotated[
        Path,
        typer.Argument(metavar="DOCS", help="A corpus (JSON Lines), a Markdown or text file, or a folder of them."),
    ],
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", min=1, help="How many questions.")] = 50,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the draw.")] = 0,
    unanswerable: Annotated[
        float,
        typer.Option(
            "--unanswerable", metavar="X", min=0, max=1, help="Share of questions that the documents don't answer."
        ),
    ] = 0.1,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the dataset. [that of DOCS, -generated]")
    ] = None,
    passages: Annotated[
        Path | None, typer.Option("--passages", metavar="FILE", help="Write the passages as a corpus with their ids.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="A model that LiteLLM supports writes them. [templates]"),
    ] = None,
    api_base: Annotated[str | None, option("api_base")] = None,
    usd: Annotated[float | None, option("usd")] = None,
    concurrency: Annotated[int, option("concurrency")] = 8,
    as_json: AsJson = False,
) -> None:
    """Make questions with ground truth from documents, offline or with a model, and keep them as a dataset."""
    from ragassay import config
    from ragassay.core.files import to_lines, write_whole
    from ragassay.core.formatting import check_output
    from ragassay.evaluation.datasets import calls_text
    from ragassay.sdk.datasets import Datasets
    from ragassay.testset import read_passages

    if model is None and (usd or api_base):
        raise BadSettings(f"{'--budget-usd' if usd else '--api-base'} is about a model; templates call nobody")
    config.resolve([command_line({"api_base": api_base})])  # refuses what is no address
    if passages:
        check_output(passages)
    called = {"api_base": api_base, "usd": usd, "concurrency": concurrency} if model else {}
    report = Datasets().generate(
        documents, name, count=count, seed=seed, unanswerable=unanswerable, model=model, **called
    )
    if passages:
        write_whole(passages, to_lines(passage.model_dump() for passage in read_passages(documents).passages))
    if as_json:
        print_json(report)
        return
    made = listed((f"{kind} {rows}" for kind, rows in report.made_by.items()), most=10)
    typer.echo(f"{report.version.reference}: {report.rows} questions ({made}) from {report.passages} passages")
    _print_report(report, count)
    if report.usage:
        typer.echo(calls_text(report.usage))


def _print_report(report: GenerationReport, wanted: int) -> None:
    dropped = sum(each.count for each in report.dropped)
    typer.echo(f"{report.candidates} candidates, {dropped} thrown away, {report.not_drawn} not drawn")
    for each in report.dropped:
        typer.echo(f"  {each.count}: {each.reason}, such as: {each.examples[0]}")
    if report.rows < wanted:
        typer.echo(f"warning: {report.rows} instead of {wanted} questions: there are no more in these passages")
