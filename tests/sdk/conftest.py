"""Every test here in a folder of its own, and without an embedding model, which takes longer than the rest."""

import pytest


@pytest.fixture(autouse=True)
def _light(monkeypatch, tmp_path, own_things):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))


@pytest.fixture
def rows():
    """Three rows, of which the second answers wrongly and the third not at all."""
    texts = [
        ("When do backups start?", "Backups start at 02:00 UTC.", "Backups start at 02:00 UTC."),
        ("Where is the <b>log</b>?", "The log is in /tmp.", "The log is in /var/log."),
        ("Who pays?", "I don't know.", "The customer pays the bill."),
    ]
    return [
        {"question": question, "answer": answer, "contexts": [truth], "ground_truth": truth}
        | {"team": "red" if n else "blue", "latency_ms": 10.0 + n, "cost_usd": 0.001, "input_tokens": 5}
        for n, (question, answer, truth) in enumerate(texts)
    ]
