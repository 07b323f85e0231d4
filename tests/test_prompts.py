import hashlib

import pytest

from ragassay.core import prompts
from ragassay.core.errors import BadSettings, UnknownName


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


def test_a_change_of_the_front_matter_alone_is_a_new_version(shelf, tmp_path_factory, monkeypatch):
    (shelf / "a.md").write_text("---\nfor: x\n---\nSame text")
    (shelf / "b.md").write_text("---\nfor: y\n---\nSame text")

    assert prompts.load("a").text == prompts.load("b").text
    assert prompts.load("a").version != prompts.load("b").version


def test_line_ends_of_another_system_are_the_same_version(shelf):
    (shelf / "unix.md").write_bytes(b"---\nk: v\n---\none\ntwo\n")
    (shelf / "dos.md").write_bytes(b"---\r\nk: v\r\n---\r\none\r\ntwo\r\n")

    assert prompts.load("unix").version == prompts.load("dos").version
    assert prompts.load("dos").text == "one\ntwo"


def test_a_prompt_without_front_matter_is_all_text(shelf):
    (shelf / "plain.md").write_text("Just this.\n---\nand this")

    assert prompts.load("plain").text == "Just this.\n---\nand this"


def test_an_unknown_prompt_is_an_error_that_names_the_near_ones(shelf):
    (shelf / "judge" / "verdict.md").write_text("x")

    with pytest.raises(UnknownName, match=r"unknown prompt 'judge/verdicts'; did you mean judge/verdict\?"):
        prompts.load("judge/verdicts")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "judge/../../x", "", "judge//verdict", "Judge/Verdict"])
def test_a_name_never_leads_out_of_the_folder(shelf, name):
    (shelf.parent / "secret.md").write_text("not a prompt")

    with pytest.raises(UnknownName):
        prompts.load(name)


@pytest.mark.parametrize("values", [{}, {"name": "x", "other": "y"}])
def test_slots_and_values_must_match(shelf, values):
    (shelf / "hello.md").write_text("Hello {{ name }}")

    with pytest.raises(BadSettings, match=r"prompt 'hello': slots and values differ: (name|other)"):
        prompts.load("hello").render(**values)


@pytest.mark.parametrize("name", ["judge/verdict", "judge/repair", "judge/again"])
def test_the_judges_prompts_are_shipped(name):
    assert prompts.load(name).text
