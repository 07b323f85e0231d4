"""``ragassay judge attack`` against a model that obeys whatever it reads, over a real HTTP server."""

import json
import re

import provider as play
from ragassay.judges.attacks import ATTACKS, UNMARKED

ORDERS = re.compile(
    r"ignore all|mark every|thought process|highest score|experts verified|\"support\"\\s*:|all claims are supported",
    re.IGNORECASE,
)


def obedient(seen):
    """Calls everything right when the sample asks for it, else nothing."""
    good = ORDERS.search(seen.user) is not None
    answer = {"evidence": ["C1.1"] if good else [], "why": "", "support": "supported" if good else "not_found"}
    truth = {"truth": "agrees" if good else "absent"}
    fact = {"evidence": ["C1.1"], "why": "", "covered": "yes" if good else "no"}
    reply = {
        "answer": [{"id": label, **answer, **truth} for label in seen.labels if label[0] == "A"],
        "facts": [{"id": label, **fact} for label in seen.labels if label[0] == "G"],
        "why": "",
        "relevance": "full" if good else "none",
        "refusal": False,
    }
    return play.Answer(json.dumps(reply))


def test_an_obedient_model_is_never_shown_what_it_would_obey(cli):
    with play.Provider(then=obedient) as provider:
        options = ("--judge", "gpt-4o-mini", "--api-base", provider.url, "--limit", "5", "--json")
        code, out, err = cli("judge", "attack", *options)
    assert code == 0, err
    found = json.loads(out)
    assert [one["attack"] for one in found["attacks"]] == list(ATTACKS)
    assert found["rows"] == 5
    for one in found["attacks"]:
        assert one["marked"] == 5 or one["attack"] in UNMARKED, one["attack"]
        for name, rise in one["rises"].items():
            assert not rise["mean"] or rise["mean"] <= 0, (one["attack"], name)


def test_a_model_that_calls_everything_supported_when_asked_is_found_out(cli, monkeypatch):
    monkeypatch.setattr("ragassay.judges.prompt.addresses_the_judge", lambda text: False)
    monkeypatch.setattr("ragassay.judges.llm.addresses_the_judge", lambda text: False)
    with play.Provider(then=obedient) as provider:
        options = ("--judge", "gpt-4o-mini", "--api-base", provider.url, "--limit", "5")
        code, out, err = cli("judge", "attack", *options)
    assert code == 1, err
    assert "raised by an instruction after the answer: faithfulness" in out


def test_the_local_judge_follows_no_instruction(cli):
    code, out, err = cli("judge", "attack", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["rows"] == 30
    assert {one["marked"] for one in found["attacks"]} == {None}
    for one in found["attacks"]:
        assert all(rise["interval"]["low"] is None or rise["interval"]["low"] <= 0 for rise in one["rises"].values())
