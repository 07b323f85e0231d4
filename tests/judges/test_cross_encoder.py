"""A cross-encoder as the judge: a small real model that is trained here in a second to tell equal texts from others."""

from __future__ import annotations

import asyncio
import json

import pytest

from ragassay.core.errors import BadSettings
from ragassay.core.models import Response, Sample
from ragassay.judges.cross_encoder import CrossEncoderJudge, meaning
from ragassay.metrics.judged import faithfulness

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
    batch = tokenizer(
        ["apples are blue.", "apples are red.", "pears are sweet."], ["apples are red."] * 3, return_tensors="pt"
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        loss = model(**batch, labels=torch.tensor([0, 1, 2])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    model.save_pretrained(folder)
    return folder


def sample(*contexts):
    return Sample(query_id="q", query="Apples?", response=Response(answer="Apples are red.", contexts=contexts))


def test_judge_takes_support_from_the_labels_of_the_model(nli):
    rows = [sample("Pears are sweet.", "Apples are red."), sample("Apples are blue."), sample("Pears are sweet.")]
    found = [one.verdict for one in asyncio.run(CrossEncoderJudge(str(nli)).judge(rows, journal=None))]
    assert [[(s.support, s.evidence) for s in one.sentences] for one in found] == [
        [("supported", ("C2.1",))],
        [("contradicted", ("C1.1",))],
        [("not_found", ())],
    ]
    assert [faithfulness(one).value for one in found] == [1.0, 0.0, 0.0]
    chances = [one.probability["faithfulness"] for one in found]
    assert chances[0] > 0.8 > 0.2 > max(chances[1:])
    assert "sha256" in CrossEncoderJudge(str(nli)).settings["model"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("contradiction", "entailment", "neutral"), (1, 0)),
        (("entailment", "not_entailment"), (0, None)),
        (("hallucinated", "consistent"), (1, None)),
        (("LABEL_0",), (0, None)),
        (("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), (0, 1)),
    ],
)
def test_meaning_goes_by_the_names_of_the_labels(labels, expected):
    assert meaning(labels) == expected
    with pytest.raises(BadSettings, match=r"positive, .*which one means support"):
        meaning(("positive", "negative"))


def test_evaluate_judges_with_a_cross_encoder(cli, tmp_path, nli):
    row = {"query": "Apples?", "answer": "Apples are red.", "contexts": ["Apples are red."]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (tmp_path / "ragassay.yaml").write_text(
        f"data: rows.jsonl\njudge: {{cross_encoder: {nli}}}\nmetrics: [faithfulness]\n"
    )
    code, out, err = cli("evaluate", "--config", "ragassay.yaml")
    assert (code, err) == (0, ""), err
    assert f"judge cross_encoder:{nli}" in out
    assert "faithfulness  1.000" in out
