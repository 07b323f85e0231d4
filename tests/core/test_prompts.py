"""Prompts are files of one folder, named by what they are for and versioned by their content."""

import hashlib

import pytest

from ragassay.core import prompts
from ragassay.core.errors import UnknownName


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder of prompts of the test's own."""
    (tmp_path / "judge").mkdir()
    monkeypatch.setattr(prompts, "folder", lambda name: tmp_path)
    return tmp_path


def test_the_version_is_the_hash_of_the_whole_file(shelf):
    content = "---\npurpose: say hello\n---\nHello {{ name }}, {{name}}!\n"
    (shelf / "judge" / "hello.md").write_text(content)
    prompt = prompts.load("judge/hello")
    assert prompt.version == hashlib.sha256(content.encode()).hexdigest()[:12]
    assert prompt.text == "Hello {{ name }}, {{name}}!"
    assert prompt.render(name="[A1] <b>") == "Hello [A1] <b>, [A1] <b>!"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "judge/../../x", "", "judge//verdict", "Judge/Verdict"])
def test_a_name_never_leads_out_of_the_folder(shelf, name):
    (shelf.parent / "secret.md").write_text("not a prompt")
    with pytest.raises(UnknownName):
        prompts.load(name)
