"""``ragassay gate`` and ``ragassay trend`` as a user types them."""

import json
import re
from xml.etree import ElementTree

import pytest

from handmade_reports import make_report, mrr_report, row, rows, stored
from offline_runs import write_jsonl
from ragassay.storage.folder import FolderStore


def write(path, hits, **more):
    """A dataset in which the first ``hits`` of ten queries find their document first, the others second."""
    row = {"answer": "Paris.", "contexts": ["Paris."], "relevant_doc_ids": ["d1"], **more}
    ranks = [["d1", "d2"] if n < hits else ["d2", "d1"] for n in range(10)]
    rows = [{"query_id": f"q{n}", "query": f"question {n}", "retrieved_doc_ids": r, **row} for n, r in enumerate(ranks)]
    return write_jsonl(path, rows)


@pytest.fixture
def folder(cli, tmp_path):
    """A folder whose configuration evaluates ``data.jsonl``: mrr is (6 x 1 + 4 x 0.5) / 10 = 0.8."""
    write(tmp_path / "data.jsonl", 6)
    configure(tmp_path, '- mrr: ">= 0.80"')
    return tmp_path


def configure(folder, *gates, more="", metrics="mrr"):
    text = f"data: data.jsonl\nmetrics: [{metrics}]\n" + more + "gates:\n" + "".join(f"  {gate}\n" for gate in gates)
    (folder / "ragassay.yaml").write_text(text)


def test_a_missed_gate_ends_with_1_and_says_value_and_threshold(cli, folder):
    configure(folder, '- mrr: ">= 0.85"', '- mrr: "<= 0.9"', "- {metric: mrr, min: 0.9}")
    code, out, err = cli("gate", "ragassay.yaml", "-o", "g.xml", "-o", "g.md", "-o", "g.json")
    assert code == 1
    assert err == "error: 2 of 3 gates missed\n"
    assert re.search(r"default: mrr >= 0.850 +MISSED +0.800 +10/10 +mrr is 0.800, not >= 0.850 \(n=10\)", out)
    assert "default: mrr >= 0.850: q6 0.500; q7 0.500;" in out
    suite = ElementTree.parse(folder / "g.xml").getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    assert (folder / "g.md").read_text().startswith("<!-- ragassay gates -->\n# ragassay: 2 of 3 gates missed\n")
    assert json.loads((folder / "g.json").read_text())["passed"] is False


def test_a_gate_on_a_system_that_does_not_answer_says_why(cli, folder):
    (folder / "data.jsonl").write_text('{"query": "a?", "ground_truth_answer": "b"}\n')
    configure(
        folder,
        '- token_f1: ">= 0.5"',
        more='systems: {api: "http://127.0.0.1:9/ask"}\n',
        metrics="token_f1, exact_match",
    )
    code, out, _ = cli("gate", "--json")
    assert code == 3
    assert "(1 without one: the system failed: no reply: " in json.loads(out)["results"][0]["reason"]
    shown = " ".join(cli("show", "last", "--rows")[1].split())
    assert "token_f1, exact_match missing the system failed: " in shown
    assert shown.count("no reply") == 2  # the error is the other


def test_an_existing_run_can_be_checked_without_evaluating(cli, folder):
    cli("gate")
    runs = list((folder / "home" / "runs").iterdir())
    configure(folder, '- mrr: ">= 0.9"')
    assert [cli("gate", "--run", run)[0] for run in ("last", runs[0].name, runs[0] / "report.json")] == [1, 1, 1]
    assert list((folder / "home" / "runs").iterdir()) == runs


def test_a_drop_is_measured_from_a_run_or_a_file(cli, folder):
    cli("evaluate", "-o", "before.json")  # 0.8
    cli("evaluate")
    write(folder / "data.jsonl", 4)  # (4 x 1 + 6 x 0.5) / 10 = 0.7
    configure(folder, "- {metric: mrr, max_drop: 0.05}")
    for run, baseline in (("before.json", "last"), ("last", "before.json"), ("before.json", "last#default")):
        assert cli("gate", "ragassay.yaml", "--run", run, "--baseline", baseline)[::2] == (0, "")
    code, out, _ = cli("gate", "--baseline", "before.json#default")
    assert code == 1
    assert "mrr went from 0.800 to 0.700 (n=10): worse by 0.100, not within 0.050" in " ".join(out.split())
    assert "q4 0.500, was 1.000; q5 0.500, was 1.000\n" in out
    for limit, ends in ((0.05, 1), (0.1, 0), (0, 1)):
        configure(folder, f"- {{metric: mrr, max_drop: {limit}}}", more="baseline: before.json\n")
        code, out, _ = cli("gate", "ragassay.yaml", "--json")  # the file holds other responses to the same questions
        assert (code, json.loads(out)["cautions"]) == (ends, [])
    assert json.loads(out)["results"][0]["cause"] == "undecided"
    assert re.search("drop <= 0.000 +UNDECIDED", cli("gate", "ragassay.yaml")[1])


def test_a_run_is_not_its_own_baseline_but_one_of_its_systems_may_be_that_of_the_others(cli, folder):
    cli("evaluate", "-o", "before.json")
    configure(folder, "- {metric: mrr, max_drop: 0.05}")
    for baseline in ("last", "last#default", "before.json"):
        err = cli.refused("gate", "ragassay.yaml", "--run", "last", "--baseline", baseline)
        assert "can't be its own baseline; name an earlier run, or last-passed" in err
    worse = write(folder / "worse.jsonl", 2)  # (2 x 1 + 8 x 0.5) / 10 = 0.6
    cli("evaluate", "data.jsonl", "--system", "old=data.jsonl", "--system", f"new={worse}", "--metrics", "mrr")
    code, out, _ = cli("gate", "--run", "last", "--baseline", "last#old")
    assert (code, "new: mrr drop <= 0.050" in out, "mrr went from 0.800 to 0.600" in out) == (1, True, True)


def test_the_last_run_that_passed_is_a_baseline_and_drops_are_left_out_until_there_is_one(cli, folder):
    configure(folder, '- mrr: ">= 0.68"', "- {metric: mrr, max_drop: 0.05}", more="baseline: last-passed\n")
    write(folder / "data.jsonl", 3)  # (3 x 1 + 7 x 0.5) / 10 = 0.65
    code, out, err = cli("gate")
    assert (code, "no earlier run on data has passed its gates; gates on a drop are left out" in err) == (1, True)
    write(folder / "data.jsonl", 6)  # 0.8
    code, out, err = cli("gate")
    assert (code, "drop" in out, "warning: no earlier run" in err) == (0, False, True)
    write(folder / "data.jsonl", 4)
    assert cli("gate")[0] == 1  # 0.7 is not within 0.05 of 0.8, and no baseline for the next
    write(folder / "data.jsonl", 3)
    assert "went from 0.800 to 0.650" in cli("gate")[1]


@pytest.mark.parametrize(("rows", "says"), [(10, "metadata.tenant has 6 values, too many for slices"), (12, None)])
def test_a_gate_on_slices_that_no_report_has_is_refused_before_the_run(rows, says, cli, folder):
    configure(folder, "- {metric: mrr, min: 0, slice: metadata.tenant=v1}")
    row = {"relevant_doc_ids": ["a"], "retrieved_doc_ids": ["a"]}
    made = [{**row, "query": f"query {n}?", "metadata": {"tenant": f"v{n % 6}"}} for n in range(rows)]
    write_jsonl(folder / "data.jsonl", made)
    code, _, err = cli("gate")
    assert (code, (says or "") in err) == (2 if says else 0, True), err
    assert (folder / "home" / "runs").exists() is (says is None)


BAD = {
    "no configuration here": (["gate"], "there is no ragassay.yaml in this folder"),
    "slice": (["gate", "slice.yaml"], "gates[1]: no row is in the slice 'category=x'"),
    "metric": (["gate", "metric.yaml"], "the gate is on correctness, which this run does not compute"),
    "no gates": (["gate", "empty.yaml"], "empty.yaml: the configuration has no gates"),
    "unknown run": (["gate", "--run", "nope"], "there is no run 'nope'"),
    "no baseline": (["gate", "drop.yaml"], "give --baseline RUN, NAME, FILE, last or last-passed"),
    "no runs": (["trend", "mrr"], "there is no finished run"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name.replace(" ", "-"))
def test_bad_input_gives_one_clear_line_and_leaves_nothing(case, cli, folder):
    for name, text in {
        "empty": "",
        "drop": "gates: [{metric: mrr, max_drop: 0}]",
        "slice": "gates: [{mrr: <= 1}, {metric: mrr, min: 0, slice: category=x}]",
        "metric": "gates: [{metric: correctness, min: 0}]",
    }.items():
        (folder / f"{name}.yaml").write_text(f"data: data.jsonl\nmetrics: [mrr]\n{text}\n")
    if case == "no configuration here":
        (folder / "ragassay.yaml").unlink()
    arguments, says = BAD[case]
    assert says in cli.refused(*arguments, code=5 if case == "no runs" else 2)
    assert not (folder / "home" / "runs").exists()


@pytest.fixture
def history(monkeypatch):
    """Runs that were made by hand take the place of those in the home folder."""

    def pretend(*reports):
        monkeypatch.setattr(FolderStore, "newest", lambda _: stored(reports))

    return pretend


def at(day, values, **more):
    return mrr_report(values, run=f"run-{day}", created=f"2026-01-{day:02}T12:00:00.000+00:00", **more)


def test_a_trend_shows_values_with_intervals_and_where_the_level_changed(cli, history):
    history(*(at(day, [0.8 + day / 1000, 0.9] if day <= 8 else [0.3 + day / 1000, 0.5]) for day in range(1, 17)))
    code, out, err = cli("trend", "mrr")
    assert (code, err) == (0, "")
    said = out.splitlines()
    assert said[0].startswith("default: 0.408 [0.03, 0.95] in the newest run; the level changed from ")
    assert said[1] == "mrr on france, judge local (higher is better)"
    # days 1..8: (0.8045 + 0.9) / 2 = 0.852; days 9..16: (0.3125 + 0.5) / 2 = 0.406
    assert any("level changed from 0.852 to 0.406 with the run of 2026-01-09" in line for line in said[2:])
    assert [line.split()[-1] for line in said if "n=2" in line][:2] == ["run-16", "run-15"]
    found = json.loads(cli("trend", "mrr", "--json", "--last", "3")[1])["systems"]["default"]
    assert ([point["run"] for point in found["points"]], found["changes"]) == (["run-14", "run-15", "run-16"], [])


def test_a_trend_lists_the_newest_run_first_also_within_a_minute(cli, history):
    times = [f"2026-01-01T12:00:{second:02}.000+00:00" for second in (1, 2, 3)]
    history(*(mrr_report([0.5, 0.5], run=f"run-{n}", created=time) for n, time in enumerate(times, 1)))
    said = cli("trend", "mrr")[1].splitlines()
    assert [line.split()[-1] for line in said if "n=2" in line] == ["run-3", "run-2", "run-1"]


def test_a_trend_names_all_datasets_and_the_newest_run_with_a_score_and_leaves_out_empty_columns_first(cli, history):
    wide = {f"{'x' * 30}{n}": [row(1, f"{'x' * 30}{n}", mrr=None)] for n in (1, 2)}
    systems = {**wide, "api": rows([0.5, 0.5], system="api")}
    newest = {"run": "run-9", "created": "2026-01-09T12:00:00.000+00:00"}
    history(
        at(1, [0.5], dataset="v1"),
        make_report(systems, run="run-2"),
        make_report({"api": [row(1, "api", mrr=None)]}, **newest),
    )
    out = cli("trend", "mrr")[1]
    assert re.search(r"^api: 0.500 .* in the newest run with a score,", out, re.MULTILINE)
    assert "mrr on france and v1, judge local" in out
    assert newest["run"] in out
    assert re.search(r"^left out to fit \d+ columns: .*x1, x+2$", out, re.MULTILINE)


def test_a_trend_reads_the_runs_of_the_home_folder_and_names_what_it_leaves_out(cli, folder):
    cli("gate"), cli("gate")
    first, _ = sorted((folder / "home" / "runs").iterdir())
    code, out, _ = cli("trend", "mrr")
    assert (code, out.count("n=10")) == (0, 2)
    (first / "report.json").write_text("{}")
    code, out, _ = cli("trend", "mrr")
    assert (code, "left out: 1 run that can't be read\n" in out, out.count("n=10")) == (0, True, 1)
    (first / "report.json").unlink()
    assert "left out: 1 run not finished\n" in cli("trend", "mrr")[1]


def test_a_trend_follows_the_judge_and_the_questions_of_the_newest_run_and_counts_the_others(cli, history):
    gpt = {"judges": ("gpt-4o-mini",)}
    history(at(1, [0.5], **gpt), at(2, [0.5], dataset="v1"), at(3, [0.5], dataset="x", digest="1" * 64), at(4, [0.5]))
    code, out, _err = cli("trend", "mrr", "--json")
    found = json.loads(out)
    assert (code, found["judge"], found["dataset"]) == (0, "local", "france")
    assert [point["run"] for point in found["systems"]["default"]["points"]] == ["run-2", "run-4"]
    assert found["left_out"] == {"on the dataset x": 1, "with the judge gpt-4o-mini": 1}
    named = json.loads(cli("trend", "mrr", "--json", "--judge", "gpt-4o-mini")[1])
    assert [point["run"] for point in named["systems"]["default"]["points"]] == ["run-1"]
    assert "with judge 'x'" in cli("trend", "mrr", "--judge", "x")[2]


def test_a_trend_marks_where_judge_threshold_or_limit_changed_and_unfinished_runs(cli, history):
    def judged(report):
        source = report.provenance.model_copy(update={"judge": {"name": "local", "version": 2}})
        return report.model_copy(update={"provenance": source})

    later = [at(2, [0.5, 0.5]), at(3, [0.5, 0.5], relevant_from=2.0)]
    history(at(1, [0.5, 0.5]), *map(judged, later), at(4, [0.5], digest="1" * 64, expected=2))
    said = cli("trend", "mrr")[1].splitlines()
    changed = said[said.index("What changed") + 1 : said.index("Runs") - 1]
    assert changed[:2] == [
        "default, from 2026-01-02 12:00 on: not the same judge: local with other settings (version)",
        "default, from 2026-01-03 12:00 on: not the same least relevant grade: None and 2.0",
    ]
    assert any(line.endswith("(2 queries) differ in questions, truths or labels") for line in changed)
    assert "unfinished" in "".join(said[said.index("Runs") :])
