"""The pages of datasets: what they say of versions, their rows, and the runs on them."""

import re

import orjson
import pytest

import ragassay
from browsing import browsing, linked, plain
from ragassay.core.settings import Settings


def questions(count=60):
    for n in range(count):
        yield {
            "query_id": f"q{n:02}",
            "query": f"Which city has the sign {n}?",
            "ground_truth_answer": f"City {n}.",
            "category": "even" if n % 2 == 0 else "odd",
            "difficulty": "hard" if n % 3 == 0 else "easy",
        }


@pytest.fixture
def keep(tmp_path):
    """Keeps rows as the latest version of a name."""

    def kept(rows, name="cities", **options):
        path = tmp_path / "rows.jsonl"
        path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
        return ragassay.Datasets().import_(path, name=name, **options)

    return kept


def table(text, title):
    """The rows of the table of that title, as lists of texts."""
    inside = re.search(rf'aria-label="{title}">\s*<table.*?<tbody>(.*?)</table>', text, re.DOTALL)[1]
    return [list(map(plain, re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL))) for row in inside.split("</tr>")[:-1]]


def test_datasets_are_found_by_name_and_description(keep):
    with browsing() as http:
        assert "ragassay data import" in http.get("/ui/datasets").text
        keep(questions(3), description="Towns of old")
        keep(questions(4), name="other")
        assert [row[0] for row in table(http.get("/ui/datasets").text, "Datasets")] == ["cities", "other"]
        assert [row[0] for row in table(http.get("/ui/datasets?q=TOWNS").text, "Datasets")] == ["cities"]
        assert "No dataset matches" in http.get("/ui/datasets?q=nowhere").text


def test_rows_are_turned_page_by_page(keep):
    keep(questions())
    with browsing() as http:
        text = http.get("/ui/datasets/cities").text
        assert len(table(text, "Rows")) == 50
        after = http.get(linked(text, "Next")).text
        assert len(table(after, "Rows")) == 10


def test_used_datasets_are_listed_without_a_look_at_the_reports():
    run = ragassay.evaluate([{**row, "answer": "City 1."} for row in questions(2)], metrics=["correctness"]).run.id
    (Settings().home / "runs" / run / "report.json").write_text("{")
    with browsing() as http:
        assert [row[0] for row in table(http.get("/ui/datasets").text, "Used by runs")] == ["data"]


def test_runs_on_a_dataset_are_linked(keep):
    answered = [{**row, "answer": row["ground_truth_answer"]} for row in questions(4)]
    kept = keep(answered)
    run = ragassay.evaluate(kept.reference, limit=2, metrics=["correctness"]).run.id
    ragassay.evaluate(answered, name="unrelated", metrics=["correctness"])
    with browsing() as http:
        text, listed = http.get("/ui/datasets/cities").text, http.get("/ui/datasets").text
        found = http.get("/ui/datasets?q=DATA").text
    assert [row[0].split()[0] for row in table(text, "Runs")] == [run]
    used = table(listed, "Used by runs")
    assert [(row[0], row[2], row[3]) for row in used] == [("data", "4", "1"), ("cities", "2", "1")]
    assert [row[0] for row in table(found, "Used by runs")] == ["data"]
    assert f'href="/ui/runs/{run}"' in text
    assert f'href="/ui/runs/{run}"' in listed
    assert f"<pre>ragassay evaluate {kept.reference}\n" in text
