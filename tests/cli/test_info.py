"""Commands that change nothing: what is printed, and what is kept back."""

import json
import re
from pathlib import Path

import jsonschema
import pytest


def test_help_lists_nineteen_words(cli):
    _, out, _ = cli("--help")
    words = re.findall(r"^  ([a-z]+)  ", out.partition("Commands:")[2], re.MULTILINE)
    assert len(words) == 19


@pytest.mark.parametrize("word", ["run", "submit", "report", "power", "up", "worker", "beat", "init", "data describe"])
def test_an_old_word_names_the_new_one(cli, word):
    code, out, err = cli(*word.split())
    assert (code, out, err.count("\n"), "use: ragassay " in err) == (2, "", 1, True)
    assert f"there is no command '{word}' any more" in err


def test_doctor_names_the_keys_that_are_set_and_prints_none_of_them(cli, monkeypatch):
    monkeypatch.setenv("MY_PROVIDER_API_KEY", "sk-very-secret")
    monkeypatch.setenv("EMPTY_API_KEY", "")
    code, out, _ = cli("info", "doctor", "--json")
    keys = next(finding for finding in map(json.loads, out.splitlines()) if finding["what"] == "provider keys")
    assert (code, keys["ok"]) == (0, True)
    assert "MY_PROVIDER_API_KEY" in keys["detail"]
    assert "EMPTY_API_KEY" not in keys["detail"]
    assert "sk-very-secret" not in out


def test_doctor_says_that_no_key_is_set(cli, monkeypatch):
    monkeypatch.setattr("ragassay.core.settings.provider_keys", list)
    assert "missing provider keys: none set" in cli("info", "doctor")[1]


def test_the_schema_of_a_job_takes_the_bodies_of_the_page(cli):
    schema = json.loads(cli("info", "schema", "job")[1])
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    bodies = [json.loads(body) for body in re.findall(r"<<'JSON'\n(.*?)\nJSON\n", page, re.DOTALL)]
    assert bodies
    for body in bodies:
        jsonschema.validate(body, schema)
        for wrong in (body | {"data": "rows.jsonl"}, body | {"samples": []}, body | {"metrcis": ["mrr"]}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schema)
