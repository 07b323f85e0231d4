"""Loads a configuration from its text."""

import pytest

from ragassay import config


@pytest.fixture
def load(tmp_path):
    """The configuration that a file's text says."""

    def load(text, *overrides):
        path = tmp_path / "ragassay.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return config.load(path, overrides)

    return load
