"""``ragassay init``: a configuration to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragassay.errors import Conflict

Target = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it. [ragassay.yaml]")]


def init(file: Target = None) -> None:
    """Write a commented configuration with every key and its default."""
    from ragassay import config
    from ragassay.errors import BadSettings
    from ragassay.files import write_whole

    path = file or Path(config.FILE_NAME)
    if path.exists() or path.is_symlink():
        raise Conflict(f"{path} is there already", hint="name another file: ragassay init FILE")
    if not path.parent.is_dir():
        raise BadSettings(f"there is no folder {str(path.parent)!r}", where=str(path), hint="make it first")
    write_whole(path, config.template().encode())
    typer.echo(
        f"wrote {path}; fill in 'data:', then run: ragassay evaluate --config {path}"
        if file
        else f"wrote {path}; fill in 'data:', then run: ragassay evaluate"
    )
