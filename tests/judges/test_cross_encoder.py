"""A cross-encoder as the judge: a small real model that is trained here in a second to tell equal texts from others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offline_runs import write_jsonl

ROOT = Path(__file__).parents[2]

LABELS = ("contradiction", "entailment", "neutral")
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] apples are red blue pears sweet not . gates open".split()


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """A BERT of one layer that entails a sentence if the source has "red", and contradicts it if the source has "blue"."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = tmp_path_factory.mktemp("nli")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=len(WORDS), id2label=dict(enumerate(LABELS)), label2id={}, **sizes)
    )
    pairs = [
        ("apples are blue.", "apples are red."),
        ("apples are red.", "apples are red."),
        ("pears are sweet.", "apples are red."),
    ]
    batch = tokenizer([a for a, _ in pairs], [b for _, b in pairs], return_tensors="pt")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        loss = model(**batch, labels=torch.tensor([0, 1, 2])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    model.save_pretrained(folder)
    return folder


def test_the_example_judges_support_by_entailment(cli, tmp_path, nli, monkeypatch):
    monkeypatch.setenv("NLI_MODEL", str(nli))
    sources = (["Pears are sweet.", "Apples are red."], ["Apples are blue."], ["Pears are sweet."])
    rows = [{"query": f"Apples {n}?", "answer": "Apples are red.", "contexts": one} for n, one in enumerate(sources)]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    options = (
        "--import",
        str(ROOT / "examples" / "cross_encoder_judge.py"),
        "--judge",
        "nli",
        "--metrics",
        "faithfulness",
    )
    code, out, err = cli("evaluate", "rows.jsonl", *options, "--json")
    assert code == 0, err
    verdicts = [row["verdict"]["sentences"][0] for row in json.loads(out)["results"]["default"]]
    assert [(one["support"], one["evidence"]) for one in verdicts] == [
        ("supported", ["C2.1"]),
        ("contradicted", ["C1.1"]),
        ("not_found", []),
    ]
