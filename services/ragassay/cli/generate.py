"""``ragassay data generate``: a dataset of questions that are made from documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import AsJson
from ragassay.cli.datasets import data as data
from ragassay.render import listed

if TYPE_CHECKING:
    from ragassay.synthesis import GenerationReport


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
    as_json: AsJson = False,
) -> None:
    """Make questions with ground truth from documents, offline, and keep them as a dataset."""
    from ragassay.data.versions import Lineage, Origin, check_name
    from ragassay.files import to_lines, write_whole
    from ragassay.render import check_output, json_document
    from ragassay.settings import Settings
    from ragassay.store.datasets import FolderDatasets
    from ragassay.synthesis import VERSION, candidates, draw, read_passages

    chosen = check_name(name or f"{documents.resolve().stem}-generated")
    if passages:
        check_output(passages)
    corpus = read_passages(documents)
    by = f"templates {VERSION}"
    samples, report = draw(
        candidates(corpus), corpus, count, seed=seed, unanswerable=unanswerable, marked={"by": by, "seed": seed}
    )
    if passages:
        write_whole(passages, to_lines(passage.model_dump() for passage in corpus.passages))
    options = {"by": by, "count": count, "seed": seed, "unanswerable": unanswerable, "corpus": corpus.digest}
    lineage = Lineage(action="generate", sources=(str(documents),), options=options)
    version = FolderDatasets(Settings().home).add(chosen, samples, lambda: Origin(lineage=lineage))
    if as_json:
        typer.echo(
            json_document({"version": version.model_dump(mode="json"), **report.model_dump(mode="json")}), nl=False
        )
        return
    made = listed((f"{kind} {rows}" for kind, rows in report.made_by.items()), most=10)
    typer.echo(f"{version.reference}: {report.rows} questions ({made}) from {report.passages} passages")
    _print_report(report, count)


def _print_report(report: GenerationReport, wanted: int) -> None:
    dropped = sum(each.count for each in report.dropped)
    typer.echo(f"{report.candidates} candidates, {dropped} thrown away, {report.not_drawn} not drawn")
    for each in report.dropped:
        typer.echo(f"  {each.count}: {each.reason}, such as: {each.examples[0]}")
    if report.rows < wanted:
        typer.echo(f"warning: {report.rows} instead of {wanted} questions: there are no more in these passages")
