"""One document on what is evaluated and how: ``ragassay.yaml``."""

from ragassay.config.errors import first_problem
from ragassay.config.load import (
    FILE_NAME,
    Document,
    Override,
    check,
    check_rules,
    find,
    import_plugins,
    load,
    read,
    read_yaml,
)
from ragassay.config.model import GatedConfig, ProjectConfig, sections, template

__all__ = [
    "FILE_NAME",
    "Document",
    "GatedConfig",
    "Override",
    "ProjectConfig",
    "check",
    "check_rules",
    "find",
    "first_problem",
    "import_plugins",
    "load",
    "read",
    "read_yaml",
    "sections",
    "template",
]
