"""Loads a configuration from its text."""

import pytest

from ragassay import config


@pytest.fixture
def load(tmp_path):
    """The configuration that a file's text says."""

    def load(text, name="ragassay.yaml", *layers):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return config.resolve([config.read(tmp_path / name), *layers])

    return load
