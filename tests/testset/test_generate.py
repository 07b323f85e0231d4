"""Questions from documents without a model: grounded, marked, the same everywhere, and what is thrown away is listed."""

import json

import pytest

from ragassay.core.errors import BadInput, NothingToEvaluate
from ragassay.core.package_data import folder
from ragassay.core.text import content
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.datasets.versions import DatasetStore
from ragassay.testset.generate import Written, generate
from ragassay.testset.offline import candidates
from ragassay.testset.passages import read_passages

TEXTS = {
    "auth-1": "An access token is a signed note that proves who is calling. It lives for 20 minutes.",
    "auth-2": "A refresh token is a secret that renews an access token. A refresh token lives for 14 days.",
    "ops-1": "The API accepts 120 requests per minute. If a client sends more, the API answers with 429.",
    "ops-2": "Use API keys for unattended jobs such as imports. When a key leaks, revoke it at once.",
}
CORPUS = Corpus.of(Passage(id=name, text=text, title="Guide") for name, text in TEXTS.items())


@pytest.fixture
def drawn(tmp_path):
    def draw(count=20, seed=7, corpus=CORPUS):
        store = DatasetStore.of_folder(tmp_path)
        report = generate(store, "made", corpus, Written("templates 2", [*candidates(corpus)]), count, seed=seed)
        return list(store.samples(report.version)), report

    return draw


def test_each_template_asks_what_its_sentence_answers(drawn):
    samples, _ = drawn()
    asked = {sample.query: (sample.ground_truth_answer, sample.relevant_doc_ids) for sample in samples}
    token = "An access token is a signed note that proves who is calling."
    assert asked["What is an access token?"] == ((token,), ("auth-1",))
    assert asked["A refresh token lives for how many days?"] == (("A refresh token lives for 14 days.",), ("auth-2",))
    assert asked["What happens if a client sends more?"][0] == ("If a client sends more, the API answers with 429.",)


def test_every_row_is_marked_and_leads_back_to_its_passage(drawn):
    samples, report = drawn()
    assert report.rows == len(samples)
    by_id = {passage.id: passage for passage in CORPUS.passages}
    for sample in samples:
        made = sample.metadata["generated"]
        assert (made["by"], sample.relevant_doc_ids) == ("templates 2", tuple(made["passages"]))
        assert sample.category
        assert sample.difficulty in ("easy", "medium", "hard")
        assert content(sample.ground_truth_answer[0]) <= content(by_id[made["passages"][0]].text)


def test_what_is_thrown_away_is_listed_with_its_reason(drawn):
    a = "It may differ by 60 seconds. A role is a set of permissions. The log is kept for 3 months."
    b = "A role is a part that somebody plays. A file is the thing.  The log is kept for 3 months."
    _, report = drawn(corpus=Corpus.of(Passage(id=name, text=text) for name, text in (("a", a), ("b", b))))
    reasons = {each.reason: each.examples for each in report.dropped}
    assert reasons["it is not clear without its passage"] == ("It may differ by how many seconds?",)
    assert reasons["passages answer it differently"] == ("What is a role?", "What is a role?")
    assert reasons["a similar question is there"] == ("The log is kept for how many months?",)
    assert report.candidates == sum(each.count for each in report.dropped) + report.not_drawn + report.rows
    with pytest.raises(NothingToEvaluate, match="no question could be made of 1 passages"):
        drawn(corpus=Corpus.of([Passage(id="a", text="Hello there.")]))


def test_a_seed_gives_the_same_questions_on_any_machine_and_another_seed_others(drawn):
    corpus = read_passages(folder("datasets") / "handbook" / "corpus.jsonl")
    samples, _ = drawn(12, corpus=corpus)
    assert [sample.query_id for sample in samples[:2]] == ["G01", "G02"]
    assert [s.query for s in drawn(12, corpus=corpus)[0]] == [s.query for s in samples]
    assert [s.query for s in drawn(12, seed=8, corpus=corpus)[0]] != [s.query for s in samples]


def test_markdown_is_cut_at_headings_and_between_paragraphs(tmp_path):
    (tmp_path / "sub").mkdir()
    long = "\n\n".join(" ".join(["word"] * 150) for _ in range(2))
    (tmp_path / "guide.md").write_text(
        f"# Guide\n\nFirst\nline.\n\n## Keys {{#keys}}\n\n- one\n- two\n\n## Long\n\n{long}\n\n## Code\n\n```sh\n# make\n```\n"
    )
    (tmp_path / "sub" / "plain.txt").write_text("# no heading here\n")
    (tmp_path / "other.csv").write_text("x")
    passages = {passage.id: passage for passage in read_passages(tmp_path).passages}
    assert sorted(passages) == [*(f"guide-{n}" for n in range(1, 6)), "sub-plain-1"]
    assert (passages["guide-1"].title, passages["guide-1"].text) == ("Guide", "First line.")
    assert (passages["guide-2"].title, passages["guide-2"].text) == ("Guide: Keys", "- one - two")
    assert (passages["guide-5"].title, passages["guide-5"].text) == ("Guide: Code", "```sh # make ```")
    assert passages["sub-plain-1"].text == "# no heading here"


def test_passages_of_a_file_without_text_are_an_error_with_its_name(tmp_path):
    (tmp_path / "empty.md").write_text("\n")
    with pytest.raises(BadInput, match=r"empty\.md: has no text"):
        read_passages(tmp_path / "empty.md")


def test_the_command_keeps_questions_as_a_dataset_that_can_be_retrieved_for(cli, tmp_path):
    handbook = folder("datasets") / "handbook" / "corpus.jsonl"
    options = ("data", "generate", handbook, "-n", 8, "--seed", 7, "--name", "made")
    code, out, err = cli(*options, "--passages", "corpus.jsonl", "--json")
    assert code == 0, err
    made = json.loads(out)
    assert (made["version"]["lineage"]["options"]["by"], made["rows"]) == ("templates 2", 8)
    configuration = "data: made\ncorpus: corpus.jsonl\nsystems: {bm25: {kind: bm25}}\nmetrics: [hit@10]\n"
    (tmp_path / "ragassay.yaml").write_text(configuration)
    report = json.loads(cli("evaluate", "--json")[1])
    assert report["systems"]["bm25"]["metrics"]["hit@10"]["n"] >= 7
