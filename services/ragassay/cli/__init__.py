"""The command line: each command a few lines over the rooms below."""

from ragassay.cli.app import main

__all__ = ["main"]
