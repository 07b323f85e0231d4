"""``ragassay data``: what is in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ragassay.cli.evaluate import AsJson, Duplicates, Format, Mapping, pairs

app = typer.Typer(help="Look into datasets.", rich_markup_mode=None)


@app.callback()
def _data() -> None:
    """Look into datasets."""


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A dataset, with or without responses.")],
    format: Format = "auto",  # noqa: A002 - the option's name
    mapping: Mapping = None,
    duplicates: Duplicates = "error",
    as_json: AsJson = False,
) -> None:
    """Say what a file holds: what was mapped to what, counts, nulls, duplicates, and which metrics it allows."""
    from ragassay.benchmark import computable
    from ragassay.data.describe import describe
    from ragassay.data.load import load

    columns = pairs(mapping, "--map", "OURS=THEIRS")
    dataset = load(file, format=format, mapping=columns, duplicates=duplicates)
    description = describe(dataset, computable())
    if as_json:
        sys.stdout.write(description.model_dump_json(indent=2) + "\n")
        return
    from ragassay.cli.table import print_description

    print_description(description)
