"""Where the prompts and datasets lie: inside the installed package, or at the root of a checkout."""

from __future__ import annotations

from pathlib import Path

from ragassay.core.errors import NotFound

_PACKAGE = Path(__file__).resolve().parent.parent


def folder(name: str) -> Path:
    """The folder ``prompts`` or ``datasets``; a checkout's own wins, so that nothing is a stale copy."""
    for candidate in (_PACKAGE.parents[1] / name, _PACKAGE / "_shipped" / name):
        is_checkout = candidate.parent.joinpath("pyproject.toml").is_file()
        if candidate.is_dir() and (is_checkout or candidate.parent.name == "_shipped"):
            return candidate
    raise NotFound(f"ragassay's {name} are missing from its installation", hint="install ragassay again")
