"""The judge's prompt from a user's file: in place of ours or around it, checked at the start, versioned by its content."""

import json
import shutil

import pytest

from offline_runs import GOOD, write_jsonl
from provider import Provider
from ragassay.api.app import create_app
from ragassay.api.submission import read
from ragassay.core.errors import AssayError, BadSettings
from ragassay.core.eval_config import JudgePrompt
from ragassay.core.prompts import load
from ragassay.core.settings import Settings
from ragassay.datasets.versions import DatasetStore
from ragassay.judges.prompt import instructions, read_prompt
from ragassay.service.registered import Registered

OURS = load("judge/verdict").text
AROUND = "{{ verdict }}\n\nIn this handbook a day is a working day."


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.md"
    path.write_text(AROUND)
    return path


def test_a_file_stands_around_our_prompt(own):
    around = instructions(read_prompt(own)).text
    assert around == f"{OURS}\n\nIn this handbook a day is a working day."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Judge well.", "should have the slot {{ verdict }} and no other, has none"),
        (AROUND + " {{ domain }}", "has domain, verdict"),
        (AROUND + "x" * 100_000, "has more than 100,000 characters"),
    ],
)
def test_a_prompt_without_what_a_reply_needs_is_refused_at_the_start(own, text, says):
    own.write_text(text)
    with pytest.raises(BadSettings) as refused:
        read_prompt(own, "judge_prompt")
    assert says in str(refused.value)
    with pytest.raises(AssayError, match=r"RAGASSAY_JUDGE_PROMPT: "):
        create_app(None, Settings(judge_prompt=own))


def test_a_run_keeps_its_prompt_and_goes_on_with_it_though_the_file_changed(cli, tmp_path, own, monkeypatch):
    write_jsonl(tmp_path / "d.jsonl", [GOOD | {"query_id": f"q{n}", "query": f"{n}?"} for n in range(3)])
    monkeypatch.setenv("RAGASSAY_API_KEY", "sk-test")
    with Provider() as provider:
        given = (f"api_base={provider.url}", "performance.cache=false", "judge_prompt=own.md")
        options = ("--judge", "openai/gpt-4o-mini", "--metrics", "faithfulness", "--json")
        code, out, err = cli("evaluate", "d.jsonl", *options, *(part for one in given for part in ("--set", one)))
        assert code == 0, err
        report = json.loads(out)
        assert {seen.system for seen in provider.log} == {instructions(read_prompt(own)).text}
        assert report["provenance"]["configuration"]["judge_prompt"] == {"name": "own.md", "text": AROUND}
        run = report["run"]["id"]
        shutil.rmtree(tmp_path / "home" / "runs" / run / "results" / "default")
        own.unlink()
        code, out, err = cli("evaluate", "--resume", run, "--json")
        assert code == 0, err
        again = json.loads(out)
        assert again["provenance"]["judge"] == report["provenance"]["judge"]


def test_a_job_brings_no_prompt_and_gets_the_operators(own, tmp_path):
    def prompt_of(judge, **more):
        body = json.dumps({"samples": [GOOD], "judge": judge, **more}).encode()
        return read(body, Settings(judge_prompt=own), Registered(), DatasetStore.of_folder(tmp_path))[0].judge_prompt

    with pytest.raises(BadSettings, match="judge_prompt: a job can't set this; the server's operator does"):
        prompt_of("gpt-4o-mini", judge_prompt={"name": "own.md", "text": AROUND})
    assert prompt_of("gpt-4o-mini") == JudgePrompt(name="own.md", text=AROUND)
    assert prompt_of("local") is None  # it reads none
