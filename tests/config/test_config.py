"""The configuration: what it may say, who beats whom, and how it is refused."""

import contextlib
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ragassay import config
from ragassay.analysis.gates import Gate
from ragassay.config import Configuration, Layer
from ragassay.config.document import SECTIONS, options
from ragassay.config.schedules import PlannedJob
from ragassay.core.errors import AssayError, BadSettings, NotFound
from ragassay.core.specification import JobSpec
from ragassay.systems.options import SystemConfig

DOCS = Path(__file__).parents[2] / "docs"
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
context_window: 8192
parameters: {temperature: 0.5, max_tokens: 900, extra_body: {min_p: 0.1}}
graded: false
budget: {usd: 1.5, tokens: 2000}
criteria: {polite: "It is polite."}
composites: {quality: {faithfulness: 2, relevance: 1}, balance: {harmonic_mean: [mrr, recall@5]}}
seed: 7
accurate: correctness > 0.7
relevant_from: 2
max_grade: 4
max_missing: 0.1
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


def test_every_key_takes_effect_in_what_is_made_of_it(load, tmp_path):
    (tmp_path / "own.md").write_text("{{ verdict }}")
    configuration = load(WHOLE)
    assert configuration.judge_prompt == tmp_path / "own.md"
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
    assert configuration.to_job_spec() == JobSpec(
        name="nightly",
        graded=False,
        budget={"usd": 1.5, "tokens": 2000},
        criteria={"polite": "It is polite."},
        judge_prompt={"name": "own.md", "text": "{{ verdict }}"},
        composites={"quality": {"faithfulness": 2, "relevance": 1}, "balance": {"harmonic_mean": ["mrr", "recall@5"]}},
        metrics=("nDCG@10", "faithfulness"),
        judges=("gpt-4o-mini", "gpt-4o,samples=3", "gpt-5,role=reference,on=0.3"),
        api_base="http://127.0.0.1:9",
        embeddings="any/model",
        bertscore_model="another/model",
        judge_mode="probe",
        context_window=8192,
        parameters={"temperature": 0.5, "max_tokens": 900, "extra_body": {"min_p": 0.1}},
        concurrency=2,
        timeout_s=5.0,
        seed=7,
        confidence=0.9,
        accurate="correctness > 0.7",
        relevant_from=2.0,
        max_grade=4.0,
        max_missing=0.1,
        prices={"mine": {"input_per_1m": 0.1, "output_per_1m": 1.0}},
        cache=False,
        batch=20,
    )
    assert (configuration.statistics.alpha, configuration.statistics.correction) == (0.01, "none")
    assert configuration.gates == (
        Gate(metric="mrr", min=0.7),
        Gate(metric="faithfulness", min=0.8, coverage=0.9),
    )
    wanted = {"cron": "30 2 * * *", "zone": "Asia/Kolkata", "catch_up": "skip", "dataset": "faq@3f21"}
    assert configuration.schedule == PlannedJob(**wanted, systems=("online",))
    defaults = Configuration()
    assert [name for name in Configuration.model_fields if getattr(configuration, name) == getattr(defaults, name)] == [
        "judge"
    ]  # the short form of judges, which takes no second one
    assert load("judge: m").to_job_spec().judges == JobSpec(judges=("m",)).judges


def test_a_systems_model_is_a_folder_beside_the_file_or_a_name(load, tmp_path):
    (tmp_path / "ours").mkdir()
    systems = load("systems: {a: {kind: dense, model: ours}, b: {kind: dense, model: theirs/model}}").systems
    assert [system.model for system in systems.values()] == [str(tmp_path / "ours"), "theirs/model"]
    assert load("embeddings: ours").embeddings == str(tmp_path / "ours")
    assert load("embeddings: theirs/model").embeddings == "theirs/model"


def test_a_baseline_is_a_file_beside_the_configuration_even_with_a_hash_in_its_name(load, tmp_path):
    (tmp_path / "run#1.json").touch()
    for baseline, path in (
        ("run#1.json", tmp_path / "run#1.json"),
        ("run#1.json#bm25", tmp_path / "run#1.json#bm25"),
        ("last#bm25", "last#bm25"),
    ):
        assert load(f"baseline: {baseline}").baseline == str(path)
    with pytest.raises(BadSettings, match="RUN#SYSTEM"):
        load("baseline: 'last#'")


def test_the_defaults_are_those_of_a_job():
    assert Configuration().to_job_spec() == JobSpec()


def test_every_field_of_a_job_can_be_set():
    flat = {*Configuration.model_fields, *(name for model in SECTIONS.values() for name in model.model_fields)}
    assert set(JobSpec.model_fields) <= flat


@pytest.mark.parametrize("text", ["", "# nothing\n", "judge:\nstatistics:\n", "---\n", "{}", "\ufeffjudge: local"])
def test_what_is_left_out_or_empty_is_the_default(load, text):
    assert load(text) == Configuration()


def test_the_file_that_init_writes_loads_as_the_defaults(load):
    text = config.template()
    assert load(text) == Configuration()
    assert yaml.safe_load(text).keys() == Configuration.model_fields.keys()


def test_the_examples_in_that_file_are_valid_and_take_effect(load):
    examples = [line[4:] for line in config.template().splitlines() if re.match(r"#   \S|#     ", line)]
    keys = [line.partition(":")[0] for line in examples if line[0].isalpha()]
    configuration = load("\n".join(examples))
    assert [key for key in keys if getattr(configuration, key) == getattr(Configuration(), key)] == []


def test_only_ragassay_yaml_is_found(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ragassay]\n")
    assert config.find(tmp_path) is None
    (tmp_path / "ragassay.yaml").write_text("")
    assert config.find(tmp_path) == tmp_path / "ragassay.yaml"


BROKEN = {
    "unknown key": ("judge: local\nmetrcis: [mrr]", 2, "unknown key metrcis; did you mean metrics?"),
    "unknown key in a price": ("prices:\n  m:\n    input: 1\n    output_per_1m: 1", None, "input"),
    "unknown key of a system": (
        "systems:\n  a:\n    kind: hybrid\n    rrfk: 9",
        4,
        "systems.a.rrfk; did you mean rrf_k?",
    ),
    "system without a kind": ("systems: {a: {}}", 1, "systems.a.kind: is missing"),
    "system of no kind that there is": (
        "systems: {a: {kind: htp, url: 'http://x/', reply: {answer: $.a}}}",
        1,
        "systems.a: unknown kind 'htp'; did you mean http?",
    ),
    "option that does nothing": ("systems: {a: {kind: dense, k1: 1}}", 1, "systems.a: k1: not read by kind dense"),
    "answer that is no word we know": ("systems: {a: {kind: bm25, answer: abstractive}}", 1, "'extractive'"),
    "key in the wrong place": ("alpha: 0.05", 1, "it belongs in statistics"),
    "schedule": ("schedule: daily", 1, "schedule: should be an object"),
    "schedule outside": ("schedule:\n  cron: 30 2 * * *\n  data: ../a", 3, "should be a path inside the data folder"),
    "key twice": ("seed: 1\njudge: local\nseed: 2", 3, "seed is given twice"),
    "nan": ("max_grade: .nan", 1, ".nan is not a finite number"),
    "very long number": (f"seed: {'9' * 5000}", 1, "not a finite number"),
    "not yaml": ("judge: [local", 1, "is not YAML"),
    "list": ("- judge", 1, "keys with values"),
    "alias": ("judge: &a local\nname: *a", 2, "aliases"),
    "tag": ("judge: !!binary aGk=", 1, "is not read"),
    "object": ("judge: !!python/object/apply:os.system ['true']", 1, "judge: should be text"),
    "nested deeply": ("[" * 20000, None, "nested too deeply"),
    "not utf-8": (b"judge: \xff", None, "UTF-8"),
    "huge": ("#" * 1_000_001, None, "larger than"),
    "half a character": ('judge: "\\ud800"', 1, "half a character"),
    "number as text": ('seed: "7"', 1, "seed: should be a whole number, is '7'"),
    "word as bool": ("performance: {cache: off}", 1, "performance.cache: should be true or false, is 'off'"),
    "text as list": ("metrics: mrr", 1, "metrics: should be a list, is 'mrr'"),
    "confidence": (
        "statistics:\n  confidence: 95",
        2,
        "statistics.confidence: should be at most 0.9999, is the number 95",
    ),
    "correction": ("statistics: {correction: tukey}", 1, "'holm'"),
    "unknown metric": ("metrics:\n  - mrr\n  - ngcd@10", 3, "did you mean ndcg"),
    "accuracy rule": ("accurate: good", 1, "can't read 'good'"),
    "criterion with the name of a metric": ("criteria:\n  mrr: It is polite.", 2, "would hide the metric"),
    "composite of an unknown metric": ("composites:\n  own: {mrrr: 1}", 2, "unknown metric 'mrrr'; did you mean"),
    "gate on a composite that can't be made": (
        "composites:\n  own: {mrr: 1, latency_ms: 1}\ngates: [own: '>= 1']",
        2,
        "of which lower is better",
    ),
    "rule on accurate by a composite": ("composites: {own: {accurate: 1}}\naccurate: own > 0.5", 2, "depend on itself"),
    "gate on another document's criterion": ("gates: [{polite: '>= 0.5'}]", 1, "polite"),
    "gate without metric": ("gates:\n  - min: 0.5\n    max: 1", 2, "gates[0].metric: is missing"),
    "gates as keys": ('gates:\n  mrr: ">= 0.7"', 1, "gates: should be a list"),
    "two problems": ("seed: -1\nlimit: 0", None, "(and 1 more)"),
}


@pytest.mark.parametrize("case", BROKEN, ids=lambda name: name.replace(" ", "-"))
def test_a_broken_configuration_gives_one_clear_line(case, load, tmp_path):
    text, line, says = BROKEN[case]
    with pytest.raises(BadSettings if "unknown metric" not in case else AssayError) as refused:
        load(text)
    said = str(refused.value)
    assert said.startswith(f"{tmp_path / 'ragassay.yaml'}{f':{line}: ' if line else ''}")
    assert says in said
    assert "\n" not in said
    assert refused.value.exit_code == 2


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(NotFound, match="ragassay info init"):
        config.read(tmp_path / "nope.yaml")


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_a_configuration_or_an_error_of_ours(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "ragassay.yaml"
    path.write_bytes(content)
    with contextlib.suppress(BadSettings):  # any other error is a bug
        assert isinstance(config.resolve([config.read(path)]), Configuration)


def cli(**values):
    return Layer(values, "command line", {(key,): f"--{key}" for key in values})


def test_command_line_beats_variable_beats_file(load, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def seeds(*layers):
        return load("seed: 1\nstatistics: {confidence: 0.8, alpha: 0.2}", "ragassay.yaml", *layers).seed

    assert seeds() == 1
    monkeypatch.setenv("RAGASSAY_SEED", "3")
    assert seeds(config.environment()) == 3
    assert seeds(config.environment(), cli(seed=4)) == 4


def test_a_file_may_have_a_number_as_its_name():
    assert config.parsed("labels", "2024") == "2024"


def test_a_section_is_merged_key_by_key(load, monkeypatch):
    monkeypatch.setenv("RAGASSAY_ALPHA", "0.01")
    configuration = load("statistics: {confidence: 0.8, alpha: 0.2}", "ragassay.yaml", config.environment())
    assert (configuration.statistics.confidence, configuration.statistics.alpha) == (0.8, 0.01)


VARIABLES = {
    "judge": "my/model",
    "api_base": "http://127.0.0.1:1",
    "embeddings": "any/model",
    "metrics": "mrr, nDCG@10",
    "judge_mode": "probe",
    "seed": "5",
    "accurate": "correctness > 0.9",
    "max_missing": "0.5",
    "limit": "9",
    "confidence": "0.9",
    "alpha": "1e-3",
    "concurrency": "3",
    "timeout_s": "1.5",
    "attempts": "2",
    "requests_per_minute": "60",
    "tokens_per_minute": "90000",
    "give_up_s": "30",
    "cache": "False",
    "batch": "20",
    "baseline": "last",
    "judge_prompt": "own.md",
}


@pytest.mark.parametrize("key", [key for key, (_, option) in options().items() if option.variable])
def test_every_variable_reaches_its_key(key, load, monkeypatch):
    monkeypatch.setenv(f"RAGASSAY_{key.upper()}", VARIABLES[key])
    configuration = load("", "ragassay.yaml", config.environment())
    changed = configuration.model_dump(exclude_defaults=True)
    section = next((name for name, model in SECTIONS.items() if key in model.model_fields), None)
    assert list(changed) == [section or key]
    assert list(changed[section] if section else changed) == [key]


@pytest.mark.parametrize("text", ["x", "0", "1.5", "nan", "1e999", "[1]", "true"])
def test_a_variable_that_does_not_fit_is_named(text, load, monkeypatch):
    monkeypatch.setenv("RAGASSAY_LIMIT", text)
    with pytest.raises(BadSettings, match=r"^RAGASSAY_LIMIT: limit: should be") as refused:
        load("", "ragassay.yaml", config.environment())
    assert "\n" not in str(refused.value)


def test_an_empty_variable_says_nothing(load, monkeypatch):
    monkeypatch.setenv("RAGASSAY_JUDGE", "")
    assert load("judge: m", "ragassay.yaml", config.environment()).judge == "m"


def test_the_schema_takes_what_the_reader_takes_and_refuses_what_it_refuses():
    schema = Configuration.model_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    plain = yaml.safe_load(WHOLE.replace("1e-2", "0.01").replace(" on: ", ' "on": '))
    jsonschema.validate(plain, schema)
    for text in ("metrcis: [mrr]", "limit: 0", "passes: 3", "statistics: {alpah: 1}", "gates: [{metric: mrr, mim: 1}]"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(yaml.safe_load(text), schema)
