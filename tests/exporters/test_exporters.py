"""Reports as files."""

import asyncio
import csv
import io
import json

import jsonschema
import pytest

from rag import sample, source, tools
from ragassay import benchmark
from ragassay.documents import Report
from ragassay.errors import BadSettings, UnknownName
from ragassay.exporters import export, exporter_for
from ragassay.models import JobSpec, Response
from ragassay.store.folder import FolderStore


@pytest.fixture
def report(tmp_path):
    samples = [
        sample(1, answer="=HYPERLINK(1)", query="-1+1"),
        sample(2, answer="<script>|`x`", response=Response(answer="-4.5")),
        sample(3),
    ]
    responses = {s.query_id: s.response for s in samples}
    data = source(samples, name="a | <b>")
    run = benchmark.prepare(FolderStore(tmp_path), JobSpec(), data, samples, {"=sum": (data, responses)}, tools())
    asyncio.run(benchmark.work(run, tools()))
    return benchmark.finish(run)


def test_json_is_the_document_and_fits_its_published_schema(report, tmp_path):
    export(report, tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(document, Report.model_json_schema())
    assert Report.model_validate(document) == report


def test_csv_has_the_summary_and_a_row_per_query(report, tmp_path):
    export(report, tmp_path / "r.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text())))
    assert [row["row"] for row in rows] == ["mean", "n", "query", "query", "query"]
    found = report.systems["=sum"]
    assert float(rows[0]["mrr"]) == found.metrics["mrr"].mean
    assert rows[1]["mrr"] == "2"
    assert (rows[3]["mrr"], "no retrieved_doc_ids" in rows[3]["missing"]) == ("", True)


def test_csv_cells_that_a_spreadsheet_would_run_get_a_quote_unless_they_are_numbers(report, tmp_path):
    export(report, tmp_path / "r.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text())))[2:]
    assert (rows[0]["answer"], rows[0]["query"], rows[0]["system"]) == ("'=HYPERLINK(1)", "'-1+1", "'=sum")
    assert rows[1]["answer"] == "-4.5"


def test_markdown_shows_names_as_text_and_says_what_is_missing(report, tmp_path):
    export(report, tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert text.startswith("# Evaluation of a \\| \\<b\\>\n")
    assert "| mrr | 1.000 " in text
    assert "2/3" in text
    assert "response has no retrieved\\_doc\\_ids" in text


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("report", BadSettings, "has no extension"),
        ("report.docx", UnknownName, "unknown exporter 'docx'"),
        ("nowhere/report.json", BadSettings, "there is no folder"),
    ],
)
def test_a_bad_output_is_an_error_before_anything_runs(name, error, says, tmp_path):
    with pytest.raises(error, match=says):
        exporter_for(tmp_path / name)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(BadSettings, match="is a folder"):
        exporter_for(tmp_path / "folder.json")
