"""Text from data that would act on a terminal is shown, never sent; tables fit it, and no word is cut."""

import json
import re

import pytest

from ragassay.reporting.text import table

HOSTILE = "a\x1b]52;c;aGk=\x07\x1b[2J\x1b[31mb\rc\x08\x7f\x9b0m\x9d\u202ed\u2066"
ACTS = re.compile("[^\n\t -~\u00a0-\u2029\u202f-\u2065\u206a-\U0010ffff]")


def printed(out, err):
    """What a command printed, after a look at every character of it."""
    assert ACTS.findall(out + err) == []
    return out, err


@pytest.fixture
def data(tmp_path):
    """A dataset and the responses of two systems, with hostile text wherever text may stand."""
    queries = [
        {
            "query_id": f"q{n}{HOSTILE}",
            "query": f"Which {n}? {HOSTILE if n < 2 else n}",
            "category": HOSTILE,
            "relevant_doc_ids": [f"d1{HOSTILE}"],
            "metadata": {HOSTILE: HOSTILE},
            HOSTILE: HOSTILE,
        }
        for n in range(12)
    ]
    answers = [
        {"query_id": q["query_id"], "answer": HOSTILE, "retrieved_doc_ids": [f"d{n % 2}{HOSTILE}"], "error": None}
        for n, q in enumerate(queries)
    ]
    (tmp_path / "data.json").write_text(json.dumps({"name": HOSTILE, "queries": queries}))
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    (tmp_path / "gates.yaml").write_text(f"gates: [{{metric: mrr, min: 0.9, system: {json.dumps(HOSTILE)}}}]\n")
    return ["data.json", "--system", "mine=answers.jsonl", "--system", "other=answers.jsonl", "--metrics", "mrr"]


def rename_system(tmp_path):
    """Such a name is refused when a run begins, but a report may come from anywhere."""
    path = tmp_path / "report.json"
    path.write_text(path.read_text().replace('"mine"', json.dumps(HOSTILE)))


def test_no_command_sends_control_characters_of_the_data_to_the_terminal(cli, data, tmp_path):
    code, *streams = cli("evaluate", *data, "-o", "report.json", "-o", "report.md")
    out, _ = printed(*streams)
    assert (code, "a\\u001b]52;c;aGk=\\u0007" in out) == (0, True)
    rename_system(tmp_path)
    commands = [
        ("data", "show", "data.json"),
        ("compare", "report.json"),
        ("gate", "gates.yaml", "--run", "report.json", "-o", "g.md", "-o", "g.xml"),
        ("runs", "--json"),
        ("show", "report.json", "--worst", "3"),
        ("show", "last", "--query", "q1"),
        ("show", "last", "--where", f"category={HOSTILE}"),
        ("show", "--rows", "--json", "last"),
        ("trend", "mrr"),
        ("evaluate", f"no{HOSTILE}.json"),
        ("evaluate", "data.json", "--metrics", f"mrr{HOSTILE}"),
        ("evaluate", "data.json", f"--{HOSTILE}"),
        ("compare", f"report.json#{HOSTILE}x"),
    ]
    for command in commands:
        code, *streams = cli(*command)
        out, err = printed(*streams)
        assert re.search(r"a\\(u00|x)1b", out + err), command


def test_half_a_surrogate_pair_is_shown_and_no_crash(cli):
    code, _, err = cli("compare", "no\udcff.json")
    assert (code, "no\\udcff.json" in err) == (2, True)


@pytest.mark.parametrize("width", [40, 80])
def test_many_systems_go_on_below_and_no_cell_is_lost(width):
    rows = [(metric, *(f"0.{n:03} [0.10, 0.90] n=30" for n in range(12))) for metric in ("mrr", "recall@10")]
    lines = table(("", *(f"system-number-{n}" for n in range(12))), rows, within=width)
    assert max(map(len, lines)) <= width
    assert all(cell in " ".join(" ".join(lines).split()) for row in rows for cell in row)


def test_a_table_of_texts_is_a_list_for_each_row_and_names_what_it_leaves_out():
    lines = table(("", "old", "new", "n"), [("q1", "Paris. " * 10, "Rome. " * 10, "5")], least=("n",), within=60)
    assert (lines[0], lines[-1]) == ("q1", "left out to fit 60 columns: n")
    assert "  old: Paris. Paris." in "\n".join(lines)
