"""The command line: each command a few lines over the rooms below."""

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line."""
    from ragassay.cli.app import main as run
    from ragassay.cli.terminal import printable_streams

    with printable_streams():
        run()
