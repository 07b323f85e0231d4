"""The configuration: what it may say, who beats whom, and how it is refused."""

import contextlib
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import ragassay
from ragassay import config
from ragassay.analysis import comparison
from ragassay.analysis.gates import Gate
from ragassay.config import Override, ProjectConfig
from ragassay.config.load import document_of
from ragassay.core.errors import AssayError, BadSettings
from ragassay.core.eval_config import RunConfig
from ragassay.core.schedules import PlannedJob
from ragassay.systems.options import SystemConfig

WHOLE = """
name: nightly
data: queries.jsonl
datasets: {faq: faq.jsonl, kept: handbook@3f21}
corpus: passages.jsonl
systems: {hybrid: responses/hybrid.jsonl, dense: /elsewhere/dense.jsonl, bm25: {kind: bm25, k1: 2}}
format: jsonl
map: {answer: reply}
duplicates: keep_first
limit: 100
output: [report.json, report.md]
metrics: [nDCG@10, faithfulness]
judges: [gpt-4o-mini, {model: gpt-4o, samples: 3}, {model: gpt-5, role: reference, on: 0.3}]
api_base: http://127.0.0.1:9
embeddings: any/model
bertscore_model: another/model
judge_mode: probe
history_tokens: 500
parameters: {temperature: 0.5, max_tokens: 900, extra_body: {min_p: 0.1}}
graded: false
budget: {usd: 1.5, tokens: 2000}
criteria: {polite: "It is polite."}
composites: {quality: {faithfulness: 2, relevance: 1}, balance: {mrr: 1, recall@5: 1}}
seed: 7
accurate: correctness > 0.7
relevant_from: 2
max_grade: 4
max_failed_share: 0.1
prices: {mine: {input_per_1m: 0.1, output_per_1m: 1}}
statistics: {confidence: 0.9, alpha: 1e-2, correction: none}
performance: {concurrency: 2, timeout_s: 5, cache: false, batch: 20}
baseline: last
judge_prompt: own.md
labels: labels.csv
plugins: [own.py, our.metrics]
gates:
  - mrr: ">= 0.70"
  - metric: faithfulness
    min: 0.8
    coverage: 0.9
schedule: {cron: 30 2 * * *, zone: Asia/Kolkata, dataset: faq@3f21, systems: [online], catch_up: skip}
"""
PLAIN = yaml.safe_load(WHOLE.replace("1e-2", "0.01").replace(" on: ", ' "on": '))


@pytest.fixture
def load(tmp_path):
    """The configuration that a file's text says."""

    def load(text, *overrides):
        path = tmp_path / "ragassay.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return config.load(path, overrides)

    return load


def test_plain_words_are_those_of_yaml_1_2():
    read = document_of("[true, True, TRUE, false, FALSE, on, no, 1e-3, -7, ~, null, 12:30]", "x.yaml").values
    assert read == [True, True, True, False, False, "on", "no", 0.001, -7, None, None, "12:30"]


def test_every_key_takes_effect_in_what_is_made_of_it(load, tmp_path):
    (tmp_path / "own.md").write_text("{{ verdict }}")
    (tmp_path / "ragassay.yaml").write_text(WHOLE)
    configuration = config.check(config.read(tmp_path / "ragassay.yaml"))  # its plug-ins are not there
    assert configuration.data == tmp_path / "queries.jsonl"
    assert configuration.datasets == {"faq": tmp_path / "faq.jsonl", "kept": Path("handbook@3f21")}
    assert configuration.corpus == tmp_path / "passages.jsonl"
    assert configuration.systems == {
        "hybrid": tmp_path / "responses/hybrid.jsonl",
        "dense": Path("/elsewhere/dense.jsonl"),
        "bm25": SystemConfig(kind="bm25", k1=2.0),
    }
    assert configuration.labels == tmp_path / "labels.csv"
    assert configuration.plugins == (str(tmp_path / "own.py"), "our.metrics")
    assert configuration.output == (tmp_path / "report.json", tmp_path / "report.md")
    plain = {key: value for key, value in PLAIN.items() if key in RunConfig.model_fields}
    prompt = {"name": "own.md", "text": "{{ verdict }}"}
    judges = ("gpt-4o-mini", "gpt-4o,samples=3", "gpt-5,role=reference,on=0.3")
    assert configuration.evaluation == RunConfig(**plain | {"judge_prompt": prompt, "judges": judges})
    assert configuration.gates == (Gate(metric="mrr", min=0.7), Gate(metric="faithfulness", min=0.8, coverage=0.9))
    wanted = {"cron": "30 2 * * *", "zone": "Asia/Kolkata", "catch_up": "skip", "dataset": "faq@3f21"}
    assert configuration.schedule == PlannedJob(**wanted, systems=("online",))
    defaults = ProjectConfig()
    unset = [name for name in ProjectConfig.model_fields if getattr(configuration, name) == getattr(defaults, name)]
    assert unset == ["judge"]  # the short form of judges, which takes no second one
    assert load("judge: m").evaluation == RunConfig(judges=("m",)) == RunConfig(judge="m")


@pytest.mark.parametrize("text", ["", "# nothing\n", "judge:\nstatistics:\n", "---\n", "{}", "\ufeffjudge: local"])
def test_what_is_left_out_or_empty_is_the_default(load, text):
    assert load(text) == ProjectConfig()


def test_the_file_that_init_writes_has_every_key_and_loads_as_the_defaults(load):
    assert load(config.template()) == ProjectConfig()
    assert yaml.safe_load(config.template()).keys() == ProjectConfig.model_fields.keys()


BROKEN = {
    "unknown key": ("judge: local\nmetrcis: [mrr]", 2, "unknown key metrcis; did you mean metrics?"),
    "unknown key of a system": (
        "systems:\n  a:\n    kind: hybrid\n    feedbak: 9",
        4,
        "a.feedbak; did you mean feedback?",
    ),
    "unknown key of an endpoint": (
        "systems:\n  a: {kind: http, url: 'http://h/', query_field: q}",
        2,
        "a.query_field; known: attempts, concurrency, headers, kind, rate, reply, request, stream, stream_end,",
    ),
    "key of an endpoint that is near": (
        "systems: {a: {kind: http, url: 'http://h/', heders: {}}}",
        1,
        "a.heders; did you mean headers?",
    ),
    "unknown key of an answer": (
        "systems: {a: {kind: bm25, answer: {model: m, max_tokns: 9}}}",
        1,
        "did you mean max_tokens?",
    ),
    "system of no kind that there is": (
        "systems: {a: {kind: htp}}",
        1,
        "systems.a: unknown kind 'htp'; did you mean http?",
    ),
    "key in the wrong place": ("alpha: 0.05", 1, "it belongs in statistics"),
    "key twice": ("seed: 1\njudge: local\nseed: 2", 3, "seed is given twice"),
    "nan": ("max_grade: .nan", 1, ".nan is not a finite number"),
    "not yaml": ("judge: [local", 1, "is not YAML"),
    "path without quotes": (
        "systems:\n  a:\n    reply: {answer: $.choices[0].message.content}",
        3,
        'quote the path: answer: "$',
    ),
    "object": ("judge: !!python/object/apply:os.system ['true']", 1, "judge: should be an object"),
    "nested deeply": ("[" * 20000, None, "nested too deeply"),
    "not utf-8": (b"judge: \xff", None, "UTF-8"),
    "accuracy rule": ("accurate: good", 1, "can't read 'good'"),
    "criterion with the name of a metric": ("criteria:\n  mrr: It is polite.", 2, "would hide the metric"),
    "composite of an unknown metric": ("composites:\n  own: {mrrr: 1}", 2, "unknown metric 'mrrr'; did you mean"),
    "rule on accurate by a composite": ("composites: {own: {accurate: 1}}\naccurate: own > 0.5", 2, "depend on itself"),
    "two problems": ("seed: -1\nlimit: 0", None, "(and 1 more)"),
}


@pytest.mark.parametrize("case", BROKEN, ids=lambda name: name.replace(" ", "-"))
def test_a_broken_configuration_gives_one_clear_line(case, load, tmp_path):
    text, line, says = BROKEN[case]
    with pytest.raises(AssayError) as refused:
        load(text)
    said = str(refused.value)
    assert said.startswith(f"{tmp_path / 'ragassay.yaml'}{f':{line}: ' if line else ''}")
    assert says in said
    assert "\n" not in said
    assert refused.value.exit_code == 2


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_a_configuration_or_an_error_of_ours(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "ragassay.yaml"
    path.write_bytes(content)
    with contextlib.suppress(BadSettings):  # any other error is a bug
        assert isinstance(config.load(path), ProjectConfig)


def test_what_a_caller_sets_beats_a_variable_which_beats_the_file(load, monkeypatch):
    text = "judges: [{model: first}, {model: second}]\napi_base: http://127.0.0.1:2"
    assert load(text).judged_by == "first + second"
    monkeypatch.setenv("RAGASSAY_JUDGE", "third")
    monkeypatch.setenv("RAGASSAY_API_BASE", "http://127.0.0.1:1")
    assert (load(text).judged_by, load(text).api_base) == ("third", "http://127.0.0.1:1")
    assert load(text, Override(("judges",), ["fourth"], "--judge")).judged_by == "fourth"
    monkeypatch.setenv("RAGASSAY_JUDGE", "")
    assert load(text).judged_by == "first + second", "an empty variable says nothing"


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("statistics.alpha=1e-2", lambda made: (made.statistics.alpha, made.statistics.confidence), (0.01, 0.8)),
        ("criteria.short=It is short.", lambda made: sorted(made.criteria), ["polite", "short"]),
        ("criteria={short: It is short.}", lambda made: sorted(made.criteria), ["short"]),
        ("metrics=[mrr, ndcg@5]", lambda made: made.metrics, ("mrr", "ndcg@5")),
        ("labels='2024'", lambda made: made.labels, Path("2024")),
        ("limit=", lambda made: made.limit, None),
    ],
)
def test_set_changes_one_key(text, value, expected, load):
    file = "statistics: {confidence: 0.8, alpha: 0.2}\ncriteria: {polite: It is polite.}\nlimit: 5"
    assert value(load(file, Override.of_text(text))) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed", "--set: 'seed' is not of the form KEY=VALUE"),
        ("seed.x=1", "--set seed.x: seed has no keys"),
        ("statistics.alpah=0.1", "--set statistics.alpah: is unknown; did you mean alpha?"),
        ("seed=-1", "--set seed: should be greater than or equal to 0, is the number -1"),
        ("max_grade=0", "--set max_grade: should be above 0, is the number 0"),
    ],
)
def test_a_set_that_does_not_fit_is_named(text, says, load):
    with pytest.raises(AssayError) as refused:
        load("seed: 1", Override.of_text(text))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses():
    schema = ProjectConfig.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(PLAIN, schema)
    for text in ("metrcis: [mrr]", "limit: 0", "passes: 3", "statistics: {alpah: 1}", "gates: [{metric: mrr, mim: 1}]"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(text), schema)


def test_statistics_that_are_switched_off_are_left_out():
    rows = [{"query": f"Where is {n}?", "relevant_doc_ids": ["a"]} for n in range(12)]
    systems = {
        name: [{**row, "retrieved_doc_ids": found} for row in rows]
        for name, found in (("old", ["b", "a"]), ("new", ["a", "b"]))
    }
    report = ragassay.evaluate(rows, systems=systems, metrics="mrr", statistics={"intervals": False, "tests": False})
    assert report.systems["old"].metrics["mrr"].value == 0.5
    assert report.systems["old"].metrics["mrr"].interval.reason == "left out: statistics.intervals is false"
    (delta,) = ragassay.compare(report).pairs[0].metrics.values()
    assert (delta.delta, delta.interval.low, delta.p, delta.outcome) == (0.5, None, None, "can't tell")


def old_and_new(n, **statistics):
    """A report of two systems on ``n`` queries, of which only ``new`` answers accurately."""
    rows = [{"query": f"Where is {n}?", "ground_truth": "Here."} for n in range(n)]
    systems = {name: [{**row, "answer": said} for row in rows] for name, said in (("old", "There."), ("new", "Here."))}
    return ragassay.evaluate(rows, systems=systems, metrics="accurate", statistics=statistics)


def test_without_tests_nothing_is_tested_that_shares_questions_or_shares_none(monkeypatch):
    monkeypatch.setattr("ragassay.analysis.difference.randomisation", None)
    reports = [
        ragassay.evaluate(
            [{"query": f"{place}?", "answer": "Here.", "ground_truth": "Here.", "latency_ms": n} for n in range(3)],
            metrics="exact_match",
            statistics={"tests": False},
        )
        for place in ("Where", "When")
    ]
    for pair in (*ragassay.compare(old_and_new(4, tests=False)).pairs, *ragassay.compare(*reports).pairs):
        differences = [*pair.metrics.values(), *pair.measured.values()]
        assert {(one.p, one.t_test, one.outcome) for one in differences} == {(None, None, "can't tell")}


def test_a_comparison_goes_by_the_baselines_alpha_and_correction_unless_others_are_named(cli):
    report = old_and_new(4, alpha=0.01, correction="bonferroni")
    other = old_and_new(4)
    for made, terms in (
        (ragassay.compare(report), (0.01, "bonferroni")),
        (ragassay.compare(report, other), (0.01, "bonferroni")),
        (ragassay.compare(report, other, baseline=f"{other.run.id}#old"), (0.05, "holm")),
        (ragassay.compare(report, alpha=0.2, correction="bh"), (0.2, "benjamini_hochberg")),
    ):
        assert (made.alpha, made.correction) == terms
    assert "alpha 0.01, correction bonferroni" in cli("compare", report.run.id)[1]


def test_a_comparison_without_tests_does_not_claim_that_the_rows_are_too_few():
    in_short, finding = ragassay.compare(old_and_new(4, tests=False)).pairs[0].verdict
    assert in_short.startswith(
        "new answers accurately more often than old on these queries, which is not tested: 100 %"
    )
    assert finding == "No difference between new and old is tested: statistics.tests is false."


@pytest.mark.parametrize("most", [3, 4])  # queries of a report that is compared by all metrics
def test_the_verdict_of_a_report_goes_by_its_own_statistics(most, monkeypatch):
    monkeypatch.setattr(comparison, "MAX_COMPARED", most)
    # four queries that all differ: p is 2 / 2^4 = 0.125
    told = [comparison.verdict(old_and_new(4, alpha=alpha, correction="none"))[0] for alpha in (0.2, 0.1)]
    assert [text.startswith("new answers accurately more often than old: 100 %") for text in told] == [True, False]
    assert "which is not tested" in comparison.verdict(old_and_new(4, tests=False))[0]
