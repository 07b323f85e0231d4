"""Tests of a module that starts a service stay in one process, which starts it once (``--dist loadgroup``)."""

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
