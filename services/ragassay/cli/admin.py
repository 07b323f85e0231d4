"""``ragassay admin``: what the operator of a service does on its machine."""

from __future__ import annotations

import typer

from ragassay.cli.keys import keys

admin = typer.Typer(help="Operate a service.", no_args_is_help=True, rich_markup_mode=None)
admin.add_typer(keys, name="keys")


@admin.callback()
def _about() -> None:
    """Operate a service."""
