"""``ragassay comment``: a Markdown file of ours as the one comment on a pull request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragassay.errors import NotFound

File = Annotated[Path, typer.Argument(metavar="FILE", help="Markdown of ours, such as gates.md.")]
Number = Annotated[
    int | None, typer.Option("--pull-request", metavar="N", help="Its number. [that of the workflow's event]")
]
Key = Annotated[str | None, typer.Option("--key", metavar="NAME", help="Tells apart the comments of several jobs.")]


def comment(file: File, pull_request: Number = None, key: Key = None) -> None:
    """Put a Markdown file of ours on a pull request of GitHub, in place of the one that was put there before.

    GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL and GITHUB_EVENT_PATH are read, as a workflow has them.
    """
    from ragassay.cli import github
    from ragassay.settings import GitHub

    if not file.is_file():
        raise NotFound("there is no such file", where=str(file))
    settings = GitHub()
    number = github.pull_request(settings) if pull_request is None else pull_request
    if number is None:
        typer.echo("no pull request: nothing is commented on", err=True)
        return
    typer.echo(github.comment(file.read_text(encoding="utf-8"), number, settings, key=key))
