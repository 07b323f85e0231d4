"""``ragassay data``: datasets with versions, what is in them, their differences and their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragassay.cli.configured import AsJson, Plugins, import_plugins, option, pairs
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import listed

if TYPE_CHECKING:
    from ragassay.datasets.describe import DatasetDescription
    from ragassay.datasets.ir import IrQueries
    from ragassay.datasets.versions import DatasetVersion
    from ragassay.storage.datasets import FolderDatasets

VersionArgument = Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="The beginning of a version is enough.")]
DataArgument = Annotated[str, typer.Argument(metavar="DATA", help="NAME[@VERSION], or a file.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the dataset. [that of the file]")]
About = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What the dataset is.")]

data = typer.Typer(help="Keep, describe, compare and split datasets.", rich_markup_mode=None)


@data.command("import")
def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files whose rows become one dataset, or ir:NAME.")
    ],
    name: Name = None,
    description: About = None,
    format: Annotated[str, option("format")] = "auto",  # noqa: A002 - the option's name
    mapping: Annotated[list[str] | None, option("map")] = None,
    duplicates: Annotated[Literal["error", "keep_first"], option("duplicates")] = "error",
    passages: Annotated[
        Path | None, typer.Option("--passages", metavar="FILE", help="Write the documents of ir:NAME as a corpus.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep the rows of files, or of ir:NAME of ir_datasets, as a version of a dataset; the same rows are the same version."""
    from ragassay.datasets.ir import PREFIX, IrQueries
    from ragassay.sdk.datasets import Datasets

    columns = pairs(mapping, "--map", "OURS=THEIRS")
    of_library = next((str(file) for file in files if str(file).startswith(PREFIX)), None)
    if of_library and (len(files) > 1 or columns or format != "auto"):
        raise BadSettings("is imported alone and without options about files", where=of_library)
    if passages and not of_library:
        raise BadSettings(f"--passages is about {PREFIX}NAME; files hold no documents")
    if passages and of_library:
        _write_passages(IrQueries(of_library.removeprefix(PREFIX)), passages)
    version = Datasets().import_(
        of_library or files, name, description=description, format=format, map=columns, duplicates=duplicates
    )
    _print([version], as_json=as_json)


def _write_passages(rows: IrQueries, path: Path) -> None:
    """One by one, since a corpus may have millions; the file is whole or absent."""
    from ragassay.core.files import to_lines, write_whole
    from ragassay.core.formatting import check_output

    check_output(path)
    write_whole(path, to_lines(rows.passages()))


@data.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the datasets, each with its latest version."""
    from ragassay.sdk.datasets import Datasets

    _print(Datasets().list(), as_json=as_json)


@data.command("versions")
def versions(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset.")],
    as_json: AsJson = False,
) -> None:
    """List the versions of a dataset, the latest first, with what each was made from."""
    from ragassay.sdk.datasets import Datasets

    _print(Datasets().versions(name), as_json=as_json)


@data.command("show")
def show(
    reference: VersionArgument,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=0, help="How many rows are printed.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show a version: where it comes from, the file of its rows, and the first of them."""
    from itertools import islice

    from ragassay.datasets.dataset import canonical
    from ragassay.datasets.versions import resolve

    store = _store()
    version = resolve(store, reference)
    first = [canonical(sample) for sample in islice(store.samples(version), rows)]
    if as_json:
        print_json({**version.model_dump(mode="json"), "file": str(store.rows_file(version)), "first": first})
        return
    lineage = version.lineage
    made = ", ".join(f"{key} {value}" for key, value in lineage.options.items() if key != "columns")
    lines = {
        "version": f"{version.name}@{version.digest}",
        "description": version.description,
        "rows": str(version.rows),
        "created": f"{version.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "made by": f"{lineage.action}{f' ({made})' if made else ''}",
        "from": listed(lineage.sources) or None,
        "parent": lineage.parent,
        "file": str(store.rows_file(version)),
    }
    for label, text in lines.items():
        if text:
            typer.echo(f"{label}: {text}")
    for row in first:
        print_json(row)


@data.command("describe")
def describe(
    source: DataArgument,
    similar: Annotated[
        float,
        typer.Option("--similar", metavar="X", min=0.5, max=1.0, help="From which similarity questions are listed."),
    ] = 0.8,
    format: Annotated[str, option("format")] = "auto",  # noqa: A002 - the option's name
    mapping: Annotated[list[str] | None, option("map")] = None,
    duplicates: Annotated[Literal["error", "keep_first"], option("duplicates")] = "error",
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Describe a file or a dataset: columns, counts, lengths, labels, missing fields, similar questions, possible metrics."""
    from ragassay.sdk.datasets import Datasets

    import_plugins(plugin)
    columns = pairs(mapping, "--map", "OURS=THEIRS")
    described = Datasets().describe(source, similar=similar, format=format, map=columns, duplicates=duplicates)
    if as_json:
        print_json(described)
    else:
        _print_description(described)


@data.command("diff")
def diff(a: DataArgument, b: DataArgument, as_json: AsJson = False) -> None:
    """Compare two versions row by row: what was added, removed or changed, and in which fields."""
    from ragassay.sdk.datasets import Datasets

    found = Datasets().diff(a, b)
    if as_json:
        print_json(found)
        return
    from ragassay.cli.terminal import print_document
    from ragassay.reporting.datasets import change, changes
    from ragassay.reporting.document import Document

    blocks = (changes(found),) if found.added or found.removed or found.changed else ()
    print_document(Document("", headlines=((f"{found.a} -> {found.b}", change(found)),), blocks=blocks))


@data.command("split")
def split(
    reference: VersionArgument,
    train: Annotated[float, typer.Option("--train", metavar="X", help="Share of the rows to develop on.")] = 0.8,
    validation: Annotated[float, typer.Option("--validation", metavar="X", help="Share to choose with.")] = 0.1,
    test: Annotated[float, typer.Option("--test", metavar="X", help="Share to test with.")] = 0.1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the draw.")] = 0,
    by: Annotated[
        Literal["category", "difficulty", "none"], typer.Option("--by", help="Of what each part gets its share.")
    ] = "category",
    as_json: AsJson = False,
) -> None:
    """Split a dataset into NAME-train, NAME-validation and NAME-test."""
    from ragassay.sdk.datasets import Datasets

    made = Datasets().split(reference, train=train, validation=validation, test=test, seed=seed, by=by)
    if as_json:
        print_json(made)
        return
    for part, new in zip(made.parts, made.versions, strict=True):
        table = ", ".join(f"{label or 'none'} {rows}" for label, rows in part.labels.items())
        typer.echo(f"{new.reference}: {part.rows} rows{'' if by == 'none' else f' ({table})'}")


def _print_description(description: DatasetDescription) -> None:
    """What a dataset holds."""
    from ragassay.cli.terminal import print_document
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
    document = Document("", headlines=headlines, notes=description.warnings, blocks=(*tables(description), *blocks))
    print_document(document)


def _computable(description: DatasetDescription) -> Iterator[str]:
    """Metrics by how many rows have their input, each reason for which others lack it once."""
    groups: dict[tuple[int, str], list[str]] = {}
    for metric in description.metrics:
        counted = (f"{reason} ({rows})" if metric.rows else reason for reason, rows in metric.lacking.items())
        groups.setdefault((metric.rows, "; ".join(counted)), []).append(metric.metric)
    for (rows, lacking), names in sorted(groups.items(), key=lambda group: -group[0][0]):
        if rows:
            yield f"{rows} of {description.rows} rows: {', '.join(names)}{f' - {lacking}' if lacking else ''}"
    if none := [f"{', '.join(names)} ({lacking})" for (rows, lacking), names in groups.items() if not rows]:
        yield f"no row: {'; '.join(none)}"


def _store() -> FolderDatasets:
    from ragassay.core.settings import Settings
    from ragassay.storage.datasets import FolderDatasets

    return FolderDatasets(Settings().home)


def _print(versions: Sequence[DatasetVersion], *, as_json: bool) -> None:
    if as_json:
        print_json(versions)
        return
    from ragassay.reporting.datasets import made

    for version in versions:
        typer.echo(f"{version.reference}: {version.rows} rows, {made(version)}")
