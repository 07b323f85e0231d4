"""The command line: each command calls the packages below in a few lines."""

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line."""
    from ragassay.cli.app import main as run
    from ragassay.cli.terminal import printable_streams

    with printable_streams():
        run()
