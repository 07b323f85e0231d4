"""``ragassay data``: datasets with versions, what is in them, their differences, their parts, and questions from documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from ragassay.cli.options import AsJson, BudgetUsd, Concurrency, Map, Plugins, import_plugins, named_columns
from ragassay.cli.terminal import print_document, print_facts, print_json
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import listed

if TYPE_CHECKING:
    from ragassay.datasets.describe import DatasetDescription
    from ragassay.datasets.versions import DatasetVersion
    from ragassay.sdk.datasets import Datasets

VersionArgument = Annotated[str, Argument(metavar="NAME[@VERSION]", help="The beginning of a version is enough.")]
DataArgument = Annotated[str, Argument(metavar="DATA", help="NAME[@VERSION], or a file.")]
Files = Annotated[list[Path], Argument(metavar="FILE...", help="Files whose rows become one dataset, or ir:NAME.")]
Name = Annotated[str | None, Option("--name", metavar="NAME", help="Name of the dataset. [that of the file]")]
Description = Annotated[str | None, Option("--description", metavar="TEXT", help="What the dataset is.")]
Seed = Annotated[int, Option("--seed", metavar="N", min=0, help="Seed of the draw.")]
Format = Annotated[str, Option("--format", metavar="NAME", help="Format of the files, such as jsonl. [auto]")]
Duplicates = Annotated[
    Literal["error", "keep_first"], Option("--duplicates", help="What to do if a response lists a document twice.")
]
Documents = Annotated[
    Path | None, Option("--passages", metavar="FILE", help="Write the documents of ir:NAME as a corpus.")
]
Rows = Annotated[int, Option("--rows", metavar="N", min=0, help="Print the first N rows.")]
Train = Annotated[float, Option("--train", metavar="X", help="Share of the rows to develop on.")]
Validation = Annotated[float, Option("--validation", metavar="X", help="Share to choose with.")]
Test = Annotated[float, Option("--test", metavar="X", help="Share to test with.")]
By = Annotated[Literal["category", "difficulty", "none"], Option("--by", help="Of what each part gets its share.")]
Docs = Annotated[
    Path, Argument(metavar="DOCS", help="A corpus (JSON Lines), a Markdown or text file, or a folder of them.")
]
Count = Annotated[int, Option("-n", "--count", metavar="N", min=1, help="How many questions.")]
NewName = Annotated[
    str | None, Option("--name", metavar="NAME", help="Name of the dataset. [that of DOCS, -generated]")
]
Passages = Annotated[
    Path | None, Option("--passages", metavar="FILE", help="Write the passages as a corpus with their ids.")
]
Model = Annotated[
    str | None, Option("--model", metavar="MODEL", help="A model that LiteLLM supports writes them. [templates]")
]

data = typer.Typer(no_args_is_help=True)


def _datasets() -> Datasets:
    from ragassay.sdk.datasets import Datasets

    return Datasets()


@data.command("import")
def import_(
    files: Files,
    name: Name = None,
    description: Description = None,
    format: Format = "auto",  # noqa: A002 - the option's name
    mapping: Map = None,
    duplicates: Duplicates = "error",
    passages: Documents = None,
    as_json: AsJson = False,
) -> None:
    """Keep the rows of files, or of ir:NAME of ir_datasets, as a version of a dataset; the same rows are the same version."""
    from ragassay.core.files import to_lines, write_whole
    from ragassay.datasets.ir import PREFIX, ir_passages

    columns = named_columns(mapping)
    of_library = next((str(file) for file in files if str(file).startswith(PREFIX)), None)
    if of_library and (len(files) > 1 or columns or format != "auto"):
        raise BadSettings("is imported alone and without options about files", where=of_library)
    if passages and not of_library:
        raise BadSettings(f"--passages is about {PREFIX}NAME; files hold no documents")
    if passages and of_library:
        write_whole(passages, to_lines(ir_passages(of_library)))
    reading: dict[str, Any] = {"format": format, "map": columns, "duplicates": duplicates}
    _print_versions(
        [_datasets().import_(of_library or files, name, description=description, **reading)], as_json=as_json
    )


@data.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the datasets, each with its latest version."""
    _print_versions(_datasets().list(), as_json=as_json)


@data.command("show")
def show(
    source: DataArgument,
    rows: Rows = 0,
    format: Format = "auto",  # noqa: A002 - the option's name
    mapping: Map = None,
    duplicates: Duplicates = "error",
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Show a file or a dataset: its versions, columns, counts, labels, missing fields, similar questions, possible metrics."""
    from itertools import islice

    from ragassay.core.settings import Settings
    from ragassay.datasets.dataset import canonical
    from ragassay.datasets.versions import DatasetStore, file_or_version, open_data, rows_folder

    import_plugins(plugin)
    columns, store = named_columns(mapping), DatasetStore.of_folder(Settings().home)
    version = file_or_version(store, source)
    reading: dict[str, Any] = {"format": format, "duplicates": duplicates}
    described = _datasets().describe(source, map=columns, **reading)
    read = open_data(store, Path(source), mapping=columns, **reading) if rows else ()
    first = [canonical(sample) for sample in islice(read, rows)]
    versions = store.versions(version.name) if version else []
    folder = str(Settings().home / "datasets" / rows_folder(version)) if version else None
    if as_json:
        print_json(
            {"version": version, "folder": folder, "versions": versions, "description": described, "first": first}
        )
        return
    if version:
        _print_version(version, versions, folder)
    _print_description(described)
    for row in first:
        print_json(row)


@data.command("diff")
def diff(a: DataArgument, b: DataArgument, as_json: AsJson = False) -> None:
    """Compare two versions row by row: what was added, removed or changed, and in which fields."""
    from ragassay.reporting.datasets import change, changes
    from ragassay.reporting.document import Document

    difference = _datasets().diff(a, b)
    if as_json:
        print_json(difference)
        return
    blocks = (changes(difference),) if difference.added or difference.removed or difference.changed else ()
    print_document(Document("", headlines=((f"{difference.a} -> {difference.b}", change(difference)),), blocks=blocks))


@data.command("split")
def split(
    reference: VersionArgument,
    train: Train = 0.8,
    validation: Validation = 0.1,
    test: Test = 0.1,
    seed: Seed = 0,
    by: By = "category",
    as_json: AsJson = False,
) -> None:
    """Split a dataset into NAME-train, NAME-validation and NAME-test."""
    made = _datasets().split(reference, train=train, validation=validation, test=test, seed=seed, by=by)
    if as_json:
        print_json(made)
        return
    for part, new in zip(made.parts, made.versions, strict=True):
        table = ", ".join(f"{label or 'none'} {rows}" for label, rows in part.labels.items())
        typer.echo(f"{new.reference}: {part.rows} rows{'' if by == 'none' else f' ({table})'}")


@data.command("generate")
def generate(
    documents: Docs,
    count: Count = 50,
    seed: Seed = 0,
    name: NewName = None,
    passages: Passages = None,
    model: Model = None,
    budget_usd: BudgetUsd = None,
    concurrency: Concurrency = None,
    as_json: AsJson = False,
) -> None:
    """Make questions with ground truth from documents, offline or with a model, and keep them as a dataset."""
    from ragassay.core.files import check_output, to_lines, write_whole
    from ragassay.testset.generate import calls_text
    from ragassay.testset.passages import read_passages

    if model is None and budget_usd:
        raise BadSettings("--budget-usd is about a model; templates make no call")
    if passages:
        check_output(passages)
    called = {"usd": budget_usd, "concurrency": concurrency or 8} if model else {}
    report = _datasets().generate(documents, name, count=count, seed=seed, model=model, **called)
    if passages:
        write_whole(passages, to_lines(passage.model_dump() for passage in read_passages(documents).passages))
    if as_json:
        print_json(report)
        return
    dropped = sum(each.count for each in report.dropped)
    typer.echo(f"{report.version.reference}: {report.rows} questions from {report.passages} passages")
    typer.echo(f"{report.candidates} candidates, {dropped} thrown away, {report.not_drawn} not drawn")
    for each in report.dropped:
        typer.echo(f"  {each.count}: {each.reason}, such as: {each.examples[0]}")
    if report.rows < count:
        typer.echo(f"warning: {report.rows} instead of {count} questions: there are no more in these passages")
    if report.usage:
        typer.echo(calls_text(report.usage))


def _print_versions(versions: Sequence[DatasetVersion], *, as_json: bool) -> None:
    from ragassay.reporting.datasets import made

    if as_json:
        print_json(versions)
        return
    for version in versions:
        typer.echo(f"{version.reference}: {version.rows} rows, {made(version)}")


def _print_version(version: DatasetVersion, versions: Sequence[DatasetVersion], folder: str | None) -> None:
    """Where a version comes from, where its rows are, and the other versions of its name."""
    from ragassay.reporting.datasets import made

    lineage = version.lineage
    how = ", ".join(f"{key} {value}" for key, value in lineage.options.items() if key != "columns")
    facts = {
        "version": f"{version.name}@{version.digest}",
        "description": version.description or None,
        "created": f"{version.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "made by": f"{lineage.action}{f' ({how})' if how else ''}",
        "from": listed(lineage.sources) or None,
        "parent": lineage.parent,
        "rows in": folder,
    }
    print_facts(facts, column=0)
    for other in versions:
        if other.digest != version.digest:
            typer.echo(f"also: {other.reference}: {other.rows} rows, {made(other)}")


def _print_description(description: DatasetDescription) -> None:
    """What a dataset holds."""
    from ragassay.reporting.datasets import alike, tables
    from ragassay.reporting.document import Document, Sentences

    digest = f", digest {description.digest[:12]}" if description.digest else ""
    sentences = {
        "Read as our fields": [
            f"{ours} from {theirs}" for ours, theirs in description.mapped.items() if ours != theirs
        ],
        "Kept as metadata": description.kept_as_metadata,
        "Asked more than once": alike(description.repeated_queries),
        "Nearly the same": alike(description.similar_queries),
        "Metrics that can be computed": [*_computable(description)],
    }
    counts = f"{description.rows} rows, {description.responses} with a response{digest}"
    blocks = (Sentences(title, tuple(lines)) for title, lines in sentences.items() if lines)
    headlines = ((description.path, counts),)
    print_document(
        Document("", headlines=headlines, notes=description.warnings, blocks=(*tables(description), *blocks))
    )


def _computable(description: DatasetDescription) -> Iterator[str]:
    """Metrics by how many rows have their input, each reason for which others lack it once."""
    groups: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for metric in description.metrics:
        reasons = (f"{reason} ({rows})" if metric.rows else reason for reason, rows in metric.lacking.items())
        groups[metric.rows, "; ".join(reasons)].append(metric.metric)
    for (rows, lacking), names in sorted(groups.items(), key=lambda group: -group[0][0]):
        if rows:
            yield f"{rows} of {description.rows} rows: {', '.join(names)}{f' - {lacking}' if lacking else ''}"
    if none := [f"{', '.join(names)} ({lacking})" for (rows, lacking), names in groups.items() if not rows]:
        yield f"no row: {'; '.join(none)}"
