"""``ragassay data generate``: a dataset of questions that are made from documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ragassay.cli.configured import AsJson, command_line, option
from ragassay.cli.datasets import data as data
from ragassay.errors import BadSettings
from ragassay.render import listed

if TYPE_CHECKING:
    from ragassay.models import Usage
    from ragassay.settings import Settings
    from ragassay.strategies.corpus import Corpus
    from ragassay.synthesis import Candidate, GenerationReport


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
    from ragassay.data.versions import Lineage, Origin, check_name
    from ragassay.files import to_lines, write_whole
    from ragassay.protocols import digest
    from ragassay.render import check_output, json_document
    from ragassay.settings import Settings
    from ragassay.store.datasets import FolderDatasets
    from ragassay.synthesis import VERSION, candidates, draw, read_passages

    if model is None and (usd or api_base):
        raise BadSettings(f"{'--budget-usd' if usd else '--api-base'} is about a model; templates call nobody")
    config.resolve([command_line({"api_base": api_base})])  # refuses what is no address
    chosen = check_name(name or f"{documents.resolve().stem}-generated")
    if passages:
        check_output(passages)
    settings, corpus = Settings(), read_passages(documents)
    options: dict[str, Any] = {"count": count, "seed": seed, "unanswerable": unanswerable, "corpus": corpus.digest}
    marked: dict[str, Any] = {"by": f"templates {VERSION}", "seed": seed}
    usage = None
    if model is None:
        found = list(candidates(corpus))
    else:
        calls = settings.home / "datasets" / "calls" / f"{chosen}-{digest([model, options])[:12]}.jsonl"
        asked = _Model(model, api_base, usd, concurrency)
        found, usage, made_with = _written(asked, settings, corpus, count, seed, unanswerable, calls)
        marked |= {"by": f"model {model}"}
        options |= made_with
    samples, report = draw(found, corpus, count, seed=seed, unanswerable=unanswerable, marked=marked)
    if passages:
        write_whole(passages, to_lines(passage.model_dump() for passage in corpus.passages))
    lineage = Lineage(action="generate", sources=(str(documents),), options={"by": marked["by"], **options})
    version = FolderDatasets(settings.home).add(chosen, samples, lambda: Origin(lineage=lineage))
    if as_json:
        typer.echo(
            json_document(
                {
                    "version": version.model_dump(mode="json"),
                    **report.model_dump(mode="json"),
                    "usage": usage and usage.model_dump(),
                }
            ),
            nl=False,
        )
        return
    made = listed((f"{kind} {rows}" for kind, rows in report.made_by.items()), most=10)
    typer.echo(f"{version.reference}: {report.rows} questions ({made}) from {report.passages} passages")
    _print_report(report, count)
    if usage is not None:
        cost = "of unknown cost" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
        typer.echo(f"{usage.calls} calls, {usage.cache_hits} taken from earlier ones, {cost}")


class _Model(NamedTuple):
    name: str
    api_base: str | None
    usd: float | None
    concurrency: int


def _written(
    model: _Model, settings: Settings, corpus: Corpus, count: int, seed: int, unanswerable: float, calls: Path
) -> tuple[list[Candidate], Usage, dict[str, Any]]:
    """Candidates of a model, what they took, and what determined them. What is answered once is not paid again."""
    import asyncio
    from contextlib import ExitStack

    from ragassay.errors import BudgetReached
    from ragassay.specification import Budget
    from ragassay.store.ledger import CallCache, FolderLedger
    from ragassay.wiring import question_writer

    with ExitStack() as opened:
        cache = CallCache(settings.home / "cache" / "calls.sqlite")
        opened.callback(cache.close)
        ledger = FolderLedger(calls, run=calls.stem, cache=cache, budget=Budget(usd=model.usd))
        opened.callback(ledger.close)
        writer = question_writer(
            model.name, settings, ledger, api_base=model.api_base, concurrency=model.concurrency, seed=seed
        )
        try:
            found = asyncio.run(writer.write(corpus, count, seed=seed, unanswerable=unanswerable))
        except BudgetReached as reached:
            reached.hint = "what is answered is kept: give the same command a higher --budget-usd"
            raise
    return found, writer.spent, writer.settings


def _print_report(report: GenerationReport, wanted: int) -> None:
    dropped = sum(each.count for each in report.dropped)
    typer.echo(f"{report.candidates} candidates, {dropped} thrown away, {report.not_drawn} not drawn")
    for each in report.dropped:
        typer.echo(f"  {each.count}: {each.reason}, such as: {each.examples[0]}")
    if report.rows < wanted:
        typer.echo(f"warning: {report.rows} instead of {wanted} questions: there are no more in these passages")
