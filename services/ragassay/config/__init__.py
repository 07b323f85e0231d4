"""One document on what is evaluated and how: ``ragassay.yaml``."""

from ragassay.config.document import Configuration, Performance, Statistics, template
from ragassay.config.layers import (
    Layer,
    check_rules,
    environment,
    first_problem,
    import_plugins,
    parsed,
    resolve,
)
from ragassay.config.reading import FILE_NAME, find, parse, read, rebased_paths

__all__ = [
    "FILE_NAME",
    "Configuration",
    "Layer",
    "Performance",
    "Statistics",
    "check_rules",
    "environment",
    "find",
    "first_problem",
    "import_plugins",
    "parse",
    "parsed",
    "read",
    "rebased_paths",
    "resolve",
    "template",
]
