"""One document that says what is evaluated and how: ``ragassay.yaml``, or ``[tool.ragassay]`` of pyproject.toml."""

from ragassay.config.document import Configuration, Performance, Statistics
from ragassay.config.environment import environment
from ragassay.config.layers import Layer, first_problem, resolve
from ragassay.config.reading import FILE_NAME, find, parse, read
from ragassay.config.template import template

__all__ = [
    "FILE_NAME",
    "Configuration",
    "Layer",
    "Performance",
    "Statistics",
    "environment",
    "find",
    "first_problem",
    "parse",
    "read",
    "resolve",
    "template",
]
