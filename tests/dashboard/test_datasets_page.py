"""The pages of datasets: what they say of versions and their rows, and what text of rows can't make them do."""

import hashlib
import re

import orjson
import pytest

import ragassay
from browsing import browsing


def question(n):
    return f"Which city has the sign {hashlib.sha256(bytes([n])).hexdigest()}?"


def questions(count=60, **changed):
    for n in range(count):
        yield {
            "query_id": f"q{n:02}",
            "query": question(n),
            "ground_truth_answer": f"City {n}.",
            "category": "even" if n % 2 == 0 else "odd",
            "difficulty": "hard" if n % 3 == 0 else "easy",
            "relevant_doc_ids": ["d1", f"d{n}"],
            **changed.get(f"q{n:02}", {}),
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
    inside = re.search(rf'aria-label="{title}">\s*<table.*?</table>', text, re.DOTALL)
    assert inside, title
    body = inside[0].partition("<tbody>")[2]
    return [
        [re.sub(r"<[^>]+>|\s+", " ", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        for row in body.split("</tr>")[:-1]
    ]


def test_a_folder_without_datasets_says_how_to_keep_one():
    with browsing() as http:
        assert "ragassay data import" in http.get("/ui/datasets").text


def test_datasets_are_found_by_name_and_description(keep):
    keep(questions(3), description="Towns of old")
    keep(questions(4), name="other")
    with browsing() as http:
        assert [row[0] for row in table(http.get("/ui/datasets").text, "Datasets")] == ["cities", "other"]
        assert [row[0] for row in table(http.get("/ui/datasets?q=TOWNS").text, "Datasets")] == ["cities"]
        assert "No dataset matches" in http.get("/ui/datasets?q=nowhere").text


def test_versions_are_listed_with_the_commands_that_describe_and_compare_them(keep):
    first, second = keep(questions(5)), keep(questions(4))
    with browsing() as http:
        text = http.get("/ui/datasets/cities", params={"version": first.digest[:12]}).text
    assert {row[0].split()[0] for row in table(text, "Versions")} == {one.digest[:12] for one in (first, second)}
    assert f"ragassay data show {first.reference}" in text
    assert f"ragassay data diff {first.reference} {second.reference}" in text


def test_rows_are_searched_and_turned_page_by_page(keep):
    keep(questions())
    with browsing() as http:
        text = http.get("/ui/datasets/cities").text
        assert len(table(text, "Rows")) == 50
        after = re.search(r'rel="next" href="([^"]*)"', text)[1].replace("&amp;", "&").partition("#")[0]
        assert len(table(http.get(after).text, "Rows")) == 10
        found = http.get("/ui/datasets/cities", params={"text": "CITY 17."}).text
        assert [row[0].partition("?")[2].strip() for row in table(found, "Rows")] == ["q17, odd, easy"]
        assert "No row matches" in http.get("/ui/datasets/cities?text=nowhere").text


def test_runs_are_linked_by_the_rows_that_they_are_of(keep):
    answered = [{**row, "answer": row["ground_truth_answer"]} for row in questions(4)]
    kept = keep(answered)
    same = ragassay.evaluate(answered, name="elsewhere", metrics=["correctness"]).run.id
    part = ragassay.evaluate(kept.reference, limit=2, metrics=["correctness"]).run.id
    ragassay.evaluate(
        list(questions(2)), name="unrelated", systems={"mine": lambda query: "no"}, metrics=["correctness"]
    )
    with browsing() as http:
        text = http.get("/ui/datasets/cities").text
        assert {(row[0].split()[0], row[1]) for row in table(text, "Runs")} == {
            ("elsewhere", "these rows"),
            (part, "other rows"),
        }
        assert all(f'href="/ui/runs/{run}"' in text for run in (same, part))
        assert "unrelated" not in text
        assert f"<pre>ragassay evaluate {kept.reference}</pre>" in text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/ui/datasets/nothing", 422, "nothing"),
        ("/ui/datasets/cities?version=ffff", 404, "has no version"),
        ("/ui/datasets/%2e%2e%2fruns", 404, ""),
        ("/ui/datasets/cities?from=-1", 422, "from:"),
    ],
)
def test_what_can_not_be_shown_is_a_page_that_says_why(keep, path, status, said):
    keep(questions(1))
    with browsing() as http:
        answer = http.get(path)
    assert (answer.status_code, said in answer.text) == (status, True)
