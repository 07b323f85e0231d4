"""The command line: each command a few lines over the rooms below."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line; ``trec`` by a door of its own, since a small file takes less time than the parser's import."""
    from ragassay.cli.terminal import printable_streams

    with printable_streams():
        if sys.argv[1:2] == ["trec"]:
            from ragassay.cli.trec import main as trec

            trec(sys.argv[2:])
        from ragassay.cli.app import main as run

        run()
