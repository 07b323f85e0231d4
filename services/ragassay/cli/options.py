"""Options that several commands share, each with one meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
AtServer = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Use the service at URL instead of this folder.")
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option("-o", "--output", metavar="FILE", help="Also write FILE; its extension picks the format. Repeatable."),
]
Last = Annotated[int, typer.Option("--last", metavar="N", min=1, help="Only the newest N.")]
