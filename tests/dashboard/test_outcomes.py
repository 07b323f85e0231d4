"""How a run ended is what its pages say first: incomplete, gates missed, or partial - and links lead to the row they name."""

import html
import json
import re

import pytest
import yaml

import ragassay
from browsing import browsing
from provider import Answer, Provider
from ragassay.analysis.describe import in_short
from ragassay.core.formatting import interval, signed
from ragassay.core.settings import Settings
from ragassay.reporting.charts import Drawn, scatter
from ragassay.storage.folder import FolderStore

ROWS = [
    {
        "query_id": str(n),
        "query": "What happened in 2024?" if n == 1 else f"Question {n}?",
        "answer": "Paris." if n == 1 else "It is unknown to me.",
        "ground_truth_answer": "Paris.",
        "contexts": ["It was Paris."],
        "relevant_doc_ids": ["d1"],
        "retrieved_doc_ids": ["d1"],
    }
    for n in range(1, 7)
]


def test_worst_row_link_opens_the_row_it_names():
    run = ragassay.evaluate(ROWS, name="years").run.id
    with browsing() as http:
        page = http.get(f"/ui/runs/{run}").text
        links = re.findall(r'<li><a href="([^"]*)">([^<]*)</a> <small>default (\d)</small>', page)
        assert {number for _, _, number in links} >= {"2"}
        for link, query, _ in links:
            assert f'<h1 class="question">{query}</h1>' in http.get(link.replace("&amp;", "&")).text


def test_run_with_a_failing_provider_is_incomplete_in_list_and_page(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    refused = Answer(status=400, message="no such deployment")
    with Provider(then=lambda seen: refused) as provider, pytest.warns(RuntimeWarning, match="faithfulness"):
        run = ragassay.evaluate(ROWS, judge="openai/m", api_base=provider.url, metrics=["faithfulness"]).run.id
    with browsing() as http:
        listed, page = http.get("/ui/runs").text, http.get(f"/ui/runs/{run}").text
    assert '<span class="tag bad">incomplete</span>' in listed
    assert '<span class="tag good">' not in listed
    assert re.search(r'note bad"><strong>Incomplete:</strong> [^<]*faithfulness 100%[^<]*no such deployment', page)


def test_run_with_missed_gates_says_so_in_list_and_page(cli, tmp_path):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    config = tmp_path / "gates.yaml"
    gates = [{"metric": "mrr", "min": 0.9}, {"metric": "exact_match", "min": 0.9}]
    config.write_text(yaml.safe_dump({"data": "rows.jsonl", "metrics": ["mrr", "exact_match"], "gates": gates}))
    assert cli("gate", config)[0] == 1
    with browsing() as http:
        listed = http.get("/ui/runs").text
        page = http.get(re.search(r'href="(/ui/runs/[^"?]+)"', listed)[1]).text
    assert '<span class="tag bad">gates missed</span>' in listed
    assert '<span class="tag bad">1 of 2 gates missed</span>' in page
    assert re.search(r"exact_match &gt;= 0.900</b> default: [^<]*0\.167", page)


def test_partial_run_opens_on_the_rows_that_are_done():
    run = FolderStore(Settings().home).open(ragassay.evaluate(ROWS, performance={"batch": 2}, metrics=["mrr"]).run.id)
    chunk = run.record.chunks()[-1]
    (run.folder / "results" / chunk.system / f"{chunk.number:05d}.jsonl").unlink()
    run.report_file.unlink()
    with browsing() as http:
        assert f'href="/ui/runs/{run.record.id}"' in http.get("/ui/runs").text
        page = http.get(f"/ui/runs/{run.record.id}").text
        rows = http.get(f"/ui/runs/{run.record.id}/queries").text
    assert "4 of 6 rows are done" in page
    assert re.findall(r"<small>(\d)", rows) == ["1", "2", "3", "4"]


def test_long_run_says_what_a_comparison_of_accurate_answers_says():
    """1,200 rows on 401 questions, one of them with two ground truths; b is right on 8 more of them and wrong on 1."""
    truths = [["Paris."] if n else ["Paris", "Paris."] for n in range(1200)]
    questions = [
        {"query_id": str(n), "query": f"Question {n // 3}?", "ground_truth_answer": truth}
        for n, truth in enumerate(truths)
    ]
    answers = {
        name: [{"query_id": str(n), "answer": "Rome." if n // 3 in wrong else "Paris."} for n in range(1200)]
        for name, wrong in (("old", range(8)), ("new", range(8, 9)))
    }
    run = ragassay.evaluate(questions, systems=answers, accurate="exact_match >= 1", metrics=["accurate"]).run.id
    with browsing() as http:
        page = http.get(f"/ui/runs/{run}").text
    verdict = re.search(r'aria-label="Result">(.*?)</div>', page, re.DOTALL)[1]
    verdict = html.unescape(re.sub("<[^>]*>", "", verdict)).replace("\u00a0", " ")
    pair = ragassay.compare(run, metrics=["accurate"]).pairs[0]
    assert pair.metrics["accurate"].questions == 401
    assert in_short(pair) in verdict
    assert f"95 % interval {interval(pair.metrics['accurate'].interval, signed, '{} to {}')}." in verdict


def test_scatter_axis_has_no_negative_dollars():
    chart = scatter("t", "USD", "share", {"a": Drawn(x=0.0, y=0.5, text=""), "b": Drawn(x=0.0, y=0.6, text="")})
    assert all(not label.startswith("-") for _, label in chart.x_ticks)
