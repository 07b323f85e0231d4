"""Every format: what is in it, typed, whole, and harmless."""

import csv
import io
import json
import os
from datetime import datetime
from pathlib import Path

import jsonschema
import openpyxl
import pyarrow.parquet
import pytest

from offline_runs import evaluated, new_run, sample
from ragassay.core.errors import BadSettings, MissingExtra, TooLarge, UnknownName
from ragassay.core.eval_config import RunConfig
from ragassay.core.report import ReportWithResults
from ragassay.reporting import xlsx as workbook
from ragassay.reporting.comparison import EXPORTERS as OF_COMPARISONS
from ragassay.reporting.csv import cell, line
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.tabular import flat_rows
from reporting.exported import FORMULA, a_comparison, a_report

GOLDEN = Path(__file__).parent / "golden"
OF_ROWS = ("csv", "xlsx", "parquet", "json")


@pytest.fixture(scope="module")
def report():
    return a_report()


def cells(sheet):
    header, *rows = sheet.iter_rows(values_only=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.parametrize("text", ["fine\r=1+1", "a\nb", 'q"', "a,b", "\r"])
def test_csv_line_quotes_every_line_end(text):
    [[read, last]] = csv.reader(io.StringIO(line([text, "z"]).decode(), newline=""))
    assert (read.removeprefix("'"), last) == (text, "z")


def test_csv_cell_guards_formulas_and_leaves_numbers():
    for text in ("=1+1", "＝1+1", "+x", "-x", "@x", "\t=1", "\r=1", "\n=1", "＠x"):
        assert cell(text) == f"'{text}"
    for value, text in ((-1.5, "-1.5"), ("-1e-5", "-1e-5"), ("a=b", "a=b"), (None, "")):
        assert cell(value) == text


def test_json_is_the_document_and_fits_its_published_schema(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(document, ReportWithResults.model_json_schema())
    assert ReportWithResults.model_validate(document) == report


def test_flat_rows_say_the_cause_and_hide_no_column_behind_the_users_own(tmp_path):
    samples = [sample(1, relevant_doc_ids=["rome"], metadata={"query": "mine"}), sample(2)]
    spec = RunConfig(accurate="mrr > 0.5", metrics=("mrr", "accurate"))
    failed, fine = flat_rows(evaluated(new_run(tmp_path, samples, spec)))
    assert (failed["cause"], failed["why"]) == ("retrieval_miss", "none of 1 relevant documents was retrieved")
    assert (fine["cause"], fine["why"], fine["accurate"], fine["accurate_reason"]) == (None, None, 1.0, None)
    assert (fine["responded"], fine["input_tokens"], fine["latency_ms"]) == (True, 1000, 200.0)
    assert (failed["query"], failed["metadata.query"]) == ("What is the capital of France?", "mine")
    assert list(failed) == list(fine)
    assert "mrr_reason" not in fine


def test_workbook_has_figures_rows_and_provenance_each_cell_of_its_type(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.xlsx")
    book = openpyxl.load_workbook(tmp_path / "r.xlsx")
    assert book.sheetnames == ["Summary", "Rows", "Provenance"]
    rows = cells(book["Rows"])
    assert rows == [row | {"metadata.tags": '["a","=b"]'} for row in flat_rows(report)]
    assert (rows[0]["metadata.late"], rows[4]["correctness"], rows[1]["metadata.weight"]) == (False, None, 0.5)
    first, mean = cells(book["Summary"])[0], report.systems["bm25"].metrics["mrr"]
    assert (first["system"], first["figure"], first["mean"], first["n"]) == ("bm25", "mrr", mean.value, 12)
    about = {row["name"]: row["value"] for row in cells(book["Provenance"])}
    created = datetime.fromisoformat("2026-01-31T14:05:09")
    assert (about["created_at"], about["seed"], about["run"]) == (created, 7, report.run.id)
    query = book["Rows"].cell(2, 5)
    assert (query.value, query.data_type, query.hyperlink) == (FORMULA, "s", None)


def test_workbook_cuts_a_long_text_with_a_word_and_refuses_more_rows_than_a_sheet_holds(report, tmp_path, monkeypatch):
    rows = report.results["bm25"]
    long = rows[0].model_copy(update={"answer": "\N{GRINNING FACE}" * 20_000})
    one = {"systems": {"bm25": report.systems["bm25"]}, "results": {"bm25": (long, *rows[1:])}}
    EXPORTERS.write(report.model_copy(update=one), tmp_path / "r.xlsx")
    answer = cells(openpyxl.load_workbook(tmp_path / "r.xlsx")["Rows"])[0]["answer"]
    assert answer.endswith("(cut: a cell holds no more)")
    assert len(answer.encode("utf-16-le")) / 2 <= 32_767
    monkeypatch.setattr(workbook, "MAX_ROWS", 10)
    with pytest.raises(TooLarge, match="a sheet holds 10 rows"):
        EXPORTERS.write(report, tmp_path / "more.xlsx")


def test_parquet_has_typed_columns_and_the_report_without_rows_beside(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet")
    assert table.to_pylist() == [row | {"metadata.tags": '["a","=b"]'} for row in flat_rows(report)]
    names = ("query", "mrr", "responded", "input_tokens", "metadata.tier", "metadata.weight", "metadata.late")
    types = [str(table.schema.field(name).type) for name in names]
    assert types == ["string", "double", "bool", "int64", "int64", "double", "bool"]
    about = json.loads(pyarrow.parquet.read_metadata(tmp_path / "r.parquet").metadata[b"ragassay"])
    assert about["systems"]["bm25"]["metrics"]["mrr"]["n"] == 12
    assert "results" not in about


def test_fields_choose_and_order_the_columns_of_every_format_that_has_rows(report, tmp_path):
    for form in OF_ROWS:
        EXPORTERS.write(report, tmp_path / f"r.{form}", fields=["Accurate", "query_id"])
    assert (tmp_path / "r.csv").read_text().splitlines()[:2] == ["accurate,query_id", "1.0,q1"]
    first = cells(openpyxl.load_workbook(tmp_path / "r.xlsx")["Rows"])[0]
    assert list(first.items()) == [("accurate", 1), ("query_id", "q1")]
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").column_names == ["accurate", "query_id"]
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["rows"][4] == {"accurate": None, "query_id": "q5"}
    assert ("results" in document["systems"]["bm25"], document["kind"]) == (False, "rows")


def test_unknown_field_is_refused_with_the_nearest_and_nothing_is_written(report, tmp_path):
    for form in OF_ROWS:
        with pytest.raises(UnknownName, match="unknown field 'acurate'; did you mean accurate"):
            EXPORTERS.write(report, tmp_path / f"r.{form}", fields=["query", "acurate"])
    with pytest.raises(BadSettings, match="has no fields"):
        EXPORTERS.write(report, tmp_path / "r.html", fields=["mrr"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("show", BadSettings, "show' has no extension; one of: csv"),
        ("report.docx", UnknownName, "unknown exporter 'docx'"),
        ("folder.json", BadSettings, "folder.json' is a folder; name a file"),
        ("file/new/r.json", BadSettings, "file' is no folder; name another place"),
        ("r.xlsx", MissingExtra, "the format xlsx needs the extra 'xlsx'"),
    ],
)
def test_bad_output_is_an_error_before_anything_runs(name, error, says, tmp_path, monkeypatch):
    monkeypatch.setattr(EXPORTERS, "modules", {"xlsx": "no_such_package"})
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").touch()
    EXPORTERS.for_file(tmp_path / "r.JSON")
    with pytest.raises(error) as raised:
        EXPORTERS.for_file(tmp_path / name)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", [path.name for path in sorted(GOLDEN.iterdir())])
def test_formats_of_text_are_as_they_were(name, report):
    what, _, form = name.partition(".")
    golden = GOLDEN / name
    made = (EXPORTERS.whole(report, form) if what == "report" else OF_COMPARISONS.whole(a_comparison(), form)).decode()
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(made)
    assert made == golden.read_text()
