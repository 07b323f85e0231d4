"""The quickstart dataset is what its card says, and its script still makes it."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ragassay.models import Response, Sample

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "datasets" / "quickstart"
SCRIPT = ROOT / "scripts" / "make_quickstart.py"
CARD = (HOME / "README.md").read_text(encoding="utf-8")
SYSTEMS = ("baseline", "candidate")
PRICES = {"gpt-4o-mini": (0.15e-6, 0.60e-6), "gpt-4.1-mini": (0.40e-6, 1.60e-6)}
SPEEDS = {"baseline": 90, "candidate": 70}


def rows(name):
    return [json.loads(line) for line in (HOME / name).read_text(encoding="utf-8").splitlines()]


QUERIES = {row["query_id"]: row for row in rows("queries.jsonl")}
CORPUS = {row["id"]: row for row in rows("corpus.jsonl")}
RESPONSES = {name: {row["query_id"]: row for row in rows(f"responses/{name}.jsonl")} for name in SYSTEMS}
ANSWERABLE = [row for row in QUERIES.values() if row["answerable"]]


def numbers(text):
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def refused(row):
    return row["answer"] == "I could not find an answer to this in the handbook."


def shape(sentence):
    """The sentence without its numbers and the units of time that go with them."""
    return re.sub(r"\d+(?: (?:minutes|hours|days))?", "#", sentence)


def unfaithful(row):
    """Does the answer hold a sentence of a context with another number in it?"""
    told = {sentence for context in row["contexts"] for sentence in re.split(r"(?<=[.!?])\s+", context)}
    shapes = {shape(sentence) for sentence in told}
    return any(s not in told and shape(s) in shapes for s in re.split(r"(?<=[.!?])\s+", row["answer"]))


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_quickstart", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def home(tmp_path):
    return Path(shutil.copytree(HOME, tmp_path / "quickstart"))


@pytest.fixture
def chunk(script):
    return lambda id_, title, *sentences: script.Chunk(id_, title, sentences)


# --- the data -------------------------------------------------------------------------------------------------------


def test_every_query_is_a_sample_and_every_response_a_response():
    samples = [Sample.model_validate(row) for row in QUERIES.values()]
    assert len(samples) == 30
    for name in SYSTEMS:
        assert list(RESPONSES[name]) == list(QUERIES)
        for row in RESPONSES[name].values():
            given = {key: value for key, value in row.items() if key != "query_id"}
            assert None not in Response.model_validate(given).model_dump(include=set(given)).values()


def test_the_corpus_holds_the_pages_and_nothing_else():
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (HOME / "documents").glob("*.md")}
    sections = sum(page.count("\n## ") for page in pages.values())
    assert (len(pages), sections, len(CORPUS)) == (12, 66, 66)
    for id_, row in CORPUS.items():
        assert row.keys() == {"id", "title", "text"}
        plain = " ".join(re.sub(r"^\d+\. ", "", pages[id_.rpartition("-")[0]], flags=re.MULTILINE).split())
        assert row["text"] in plain
        assert 60 <= len(row["text"].split()) <= 130


def test_judgments_name_chunks_that_exist_and_agree_with_each_other():
    for row in QUERIES.values():
        grades = row["relevance_scores"]
        assert grades.keys() <= CORPUS.keys()
        assert set(grades.values()) <= {0, 1, 2, 3}
        relevant = row["relevant_doc_ids"]
        assert set(relevant) == {id_ for id_, grade in grades.items() if grade > 0}
        assert [grades[id_] for id_ in relevant] == sorted((grades[id_] for id_ in relevant), reverse=True)
        assert 0 in grades.values()


def test_an_answerable_query_has_a_primary_chunk_of_grade_three_and_two_to_four_facts():
    for row in ANSWERABLE:
        assert row["primary_relevant"] == row["relevant_doc_ids"][0]
        assert row["relevance_scores"][row["primary_relevant"]] == 3
        assert 2 <= len(row["key_facts"]) <= 4


def test_an_unanswerable_query_has_nothing_relevant_and_a_ground_truth_that_says_so():
    unanswerable = [row for row in QUERIES.values() if not row["answerable"]]
    assert [row["query_id"] for row in unanswerable] == ["qs-09", "qs-26", "qs-29"]
    for row in unanswerable:
        assert (row["relevant_doc_ids"], row["key_facts"]) == ([], [])
        assert "primary_relevant" not in row
        assert row["ground_truth_answer"].startswith("The handbook does not ")


def test_what_is_unanswerable_is_not_mentioned_in_any_page():
    assert not re.search(r"uptime|SAML|single sign-on|domain", json.dumps(list(CORPUS.values())), re.IGNORECASE)


def test_the_numbers_of_every_fact_and_ground_truth_stand_in_a_chunk_that_is_judged_to_state_them():
    for row in ANSWERABLE:
        best = [CORPUS[id_]["text"] for id_, grade in row["relevance_scores"].items() if grade == 3]
        for fact in row["key_facts"]:
            assert any(numbers(fact) <= numbers(text) for text in best), fact
        assert numbers(row["ground_truth_answer"]) <= set().union(*map(numbers, best))


def test_most_words_of_every_fact_stand_in_one_chunk_of_grade_three(script):
    for row in ANSWERABLE:
        best = [CORPUS[id_] for id_, grade in row["relevance_scores"].items() if grade == 3]
        for fact in row["key_facts"]:
            told = set(script.stems(fact))
            shares = [len(told & set(script.stems(c["title"] + " " + c["text"]))) / len(told) for c in best]
            assert max(shares) >= 0.6, fact


def test_every_retrieved_chunk_is_judged():
    for name in SYSTEMS:
        for id_, row in RESPONSES[name].items():
            assert set(row["retrieved_doc_ids"]) <= QUERIES[id_]["relevance_scores"].keys()


def test_no_python_in_datasets():
    assert not list((ROOT / "datasets").rglob("*.py"))


# --- the card -------------------------------------------------------------------------------------------------------


def test_the_card_counts_categories_and_difficulties_as_they_are():
    levels = ("easy", "medium", "hard")
    counts = Counter((row["category"], row["difficulty"]) for row in QUERIES.values())
    for category in ("factual", "procedural", "troubleshooting", "comparative", "conceptual"):
        cells = [counts[category, level] for level in levels]
        assert f"| {category} | {' | '.join(map(str, cells))} | {sum(cells)} |" in CARD
    totals = [sum(n for (_, level), n in counts.items() if level == wanted) for wanted in levels]
    assert f"| all | {' | '.join(map(str, totals))} | 30 |" in CARD


def test_the_card_counts_grades_facts_and_words_as_they_are():
    grades = Counter(grade for row in QUERIES.values() for grade in row["relevance_scores"].values())
    for grade in (3, 2, 1, 0):
        assert re.search(rf"^\| {grade} \| .* \| {grades[grade]} \|$", CARD, re.MULTILINE)
    lengths = [len(row["text"].split()) for row in CORPUS.values()]
    assert f"{min(lengths)} to {max(lengths)} words" in CARD
    outdated = json.loads((HOME / "outdated.json").read_text(encoding="utf-8"))["facts"]
    assert f"| `outdated.json` | {len(outdated)} |" in CARD


def test_the_card_gives_the_retrieval_numbers_of_both_systems():
    for name in SYSTEMS:
        precision, reciprocal = [], []
        for row in ANSWERABLE:
            retrieved = RESPONSES[name][row["query_id"]]["retrieved_doc_ids"]
            hits = [row["relevance_scores"][id_] > 0 for id_ in retrieved]
            precision.append(sum(hits[:3]) / 3)
            reciprocal.append(1 / (hits.index(True) + 1) if True in hits else 0)
        p, mrr = sum(precision), sum(reciprocal)  # an unanswerable query adds 0 to both
        assert f"| {name} | {p / 30:.3f} | {mrr / 30:.3f} | {p / 27:.3f} | {mrr / 27:.3f} |" in CARD


def test_the_card_names_the_unfaithful_answers():
    unfaithful_ids = {name: [id_ for id_, row in RESPONSES[name].items() if unfaithful(row)] for name in SYSTEMS}
    assert unfaithful_ids["baseline"] == ["qs-04", "qs-09", "qs-18", "qs-22"]
    assert unfaithful_ids["candidate"] == ["qs-04", "qs-11", "qs-22", "qs-24", "qs-28"]
    assert "qs-04, qs-09, qs-18 and qs-22 of `baseline`, qs-04, qs-11, qs-22, qs-24 and qs-28 of `candidate`" in CARD


# --- the responses --------------------------------------------------------------------------------------------------


def test_the_two_systems_really_differ():
    pairs = [(RESPONSES["baseline"][id_], RESPONSES["candidate"][id_]) for id_ in QUERIES]
    assert sum(b["answer"] != c["answer"] for b, c in pairs) >= 25
    assert sum(b["retrieved_doc_ids"] != c["retrieved_doc_ids"][:3] for b, c in pairs) >= 20
    assert all(b["cost_usd"] < c["cost_usd"] for b, c in pairs)


def test_one_system_refuses_rightly_and_wrongly_and_the_other_never():
    refusals = {name: [id_ for id_, row in RESPONSES[name].items() if refused(row)] for name in SYSTEMS}
    assert refusals == {"baseline": [], "candidate": ["qs-08", "qs-09", "qs-25", "qs-26"]}


def test_cost_is_tokens_times_the_named_price():
    for name in SYSTEMS:
        for row in RESPONSES[name].values():
            into, out = PRICES[row["metadata"]["priced_as"]]
            assert row["cost_usd"] == pytest.approx(row["input_tokens"] * into + row["output_tokens"] * out, abs=1e-9)
            assert row["output_tokens"] == -(-len(row["answer"]) // 4)  # rounded up


def test_latency_is_retrieval_plus_generation_and_generation_holds_the_simulated_model():
    for name in SYSTEMS:
        for row in RESPONSES[name].values():
            parts = row["retrieval_latency_ms"] + row["generation_latency_ms"]
            assert row["latency_ms"] == pytest.approx(parts, abs=0.002)
            assert 0 < row["retrieval_latency_ms"] < 100
            model = 250 + row["output_tokens"] / SPEEDS[name] * 1000
            assert model <= row["generation_latency_ms"] < model + 100


# --- the script -----------------------------------------------------------------------------------------------------


def test_the_recorded_files_are_what_the_script_makes():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the recorded files are up to date\n", "")


def test_the_check_ignores_latencies_and_names_every_other_difference(script, home, capsys):
    path = home / "responses" / "baseline.jsonl"
    recorded = rows("responses/baseline.jsonl")
    recorded[0]["latency_ms"] += 1.0
    path.write_text("".join(json.dumps(row) + "\n" for row in recorded), encoding="utf-8")
    assert script.main(["--check", "--home", str(home)]) == 0
    recorded[4]["answer"], recorded[4]["cost_usd"] = "Forty-two.", 0.5
    path.write_text("".join(json.dumps(row) + "\n" for row in recorded), encoding="utf-8")
    capsys.readouterr()
    assert script.main(["--check", "--home", str(home)]) == 1
    assert capsys.readouterr().err == "responses/baseline.jsonl:5: answer, cost_usd would change\n"


def test_the_check_misses_no_row_and_writes_nothing(script, home, capsys):
    (home / "corpus.jsonl").unlink()
    (home / "responses" / "candidate.jsonl").write_text("", encoding="utf-8")
    assert script.main(["--check", "--home", str(home)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 66 + 30
    assert not (home / "corpus.jsonl").exists()


def test_a_second_run_changes_nothing_but_latencies(script, home):
    shutil.rmtree(home / "responses")
    assert script.main(["--home", str(home)]) == 0
    assert (home / "corpus.jsonl").read_bytes() == (HOME / "corpus.jsonl").read_bytes()
    for name in SYSTEMS:
        again = (home / "responses" / f"{name}.jsonl").read_text(encoding="utf-8")
        before = (HOME / "responses" / f"{name}.jsonl").read_text(encoding="utf-8")
        assert re.sub(r'latency_ms": [\d.]+', "", again) == re.sub(r'latency_ms": [\d.]+', "", before)


def test_every_outdated_number_replaces_one_that_stands_in_the_corpus():
    for fact in json.loads((HOME / "outdated.json").read_text(encoding="utf-8"))["facts"]:
        assert any(fact["now"] in row["text"] for row in CORPUS.values()), fact
        assert re.sub(r"\d+|hours|days|minutes", "#", fact["now"]) == re.sub(
            r"\d+|hours|days|minutes", "#", fact["was"]
        )
        assert numbers(fact["now"]) != numbers(fact["was"])


def test_a_section_becomes_a_chunk_without_list_markers(script):
    chunks = script.cut("fruit", "# Fruit\n\n## Apples\n\n1. Wash it.\n2. Eat\nit.\n\n## Pears\n\nSee above.\n")
    assert [(c.id, c.title, c.sentences) for c in chunks] == [
        ("fruit-01", "Fruit: Apples", ("Wash it.", "Eat it.")),
        ("fruit-02", "Fruit: Pears", ("See above.",)),
    ]


def test_stems_drop_stop_words_and_endings(script):
    assert script.stems("How are the exported notes syncing?") == ["export", "not", "sync"]


def test_bm25_finds_a_title_that_tfidf_does_not_see(script, chunk):
    chunks = [
        chunk("a", "Team", "It costs much."),
        chunk("b", "Solo", "It costs little."),
        chunk("c", "Help", "Ask us."),
    ]
    assert [hit.chunk.id for hit in script.bm25(chunks)("Solo costs")] == ["b", "a"]
    assert [hit.chunk.id for hit in script.tfidf(chunks)("Solo costs")] == ["a", "b"]  # equal scores: by id
    assert script.tfidf(chunks)("nothing known") == []


def test_tfidf_is_the_cosine_but_for_the_length_of_the_query(script, chunk):
    chunks = [chunk("a", "", "red blue"), chunk("b", "", "red")]
    (hit,) = script.tfidf(chunks)("blue blue")  # b holds only what every chunk holds: its score is 0, not an error
    # idf(red) = ln(2/2) = 0, idf(blue) = ln(2/1); 2 x ln 2 x ln 2 / |(0, ln 2)| = 2 ln 2
    assert (hit.chunk.id, hit.score) == ("a", pytest.approx(2 * 0.6931471805599453))


def test_the_stand_in_misremembers_only_what_stands_in_a_later_context(script):
    assert script.remembered("Up to 5 devices.", 0, {"5 devices": "3 devices"}) == "Up to 5 devices."
    assert script.remembered("Up to 5 devices.", 1, {"5 devices": "3 devices"}) == "Up to 3 devices."


def test_this_plan_gets_its_name_from_the_title(script):
    assert script.named("This plan is free.", "Plans: Solo") == "Solo is free."
    assert script.named("It is free.", "Help: Contact") == "It is free."


def test_the_extractive_system_quotes_one_sentence_and_the_next_after_a_short_one(script, chunk):
    hits = [script.Hit(chunk("a", "", "Pears are green.", "Apples are red.", "Plums are blue."), 1.0)]
    assert script.quote("Are apples red?", hits, {}) == "Apples are red. Plums are blue."
    assert script.quote("Are apples red?", [], {}) == ""


def test_the_composing_system_refuses_a_weak_match_and_drops_repetition(script, chunk):
    chunks = [
        chunk("a", "Apples", "Apples grow red.", "Red apples grow.", "Bees like apples."),
        chunk("b", "Pears", "No."),
    ]
    answer = script.composer(chunks, refuse_below=1.0)
    assert answer("apples", [script.Hit(chunks[0], 0.9)], {}) == script.REFUSAL
    assert answer("apples", [], {}) == script.REFUSAL
    # "Red apples grow." holds the same stems as the sentence before it
    assert answer("apples", [script.Hit(chunks[0], 2.0)], {}) == "Apples grow red. Bees like apples."
