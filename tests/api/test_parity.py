"""The same rows through every door: command line, Python, client and HTTP give the same documents and refuse the same."""

import csv
import io
import json
import re
from itertools import islice

import orjson
import pytest

import ragassay
from api_server import rows

COMMAND, PYTHON, CLIENT, HTTP = "command line", "Python", "client", "HTTP"
METRICS = ["mrr", "recall@5", "faithfulness", "correctness", "accurate"]
OPTIONS = {"metrics": METRICS, "accurate": "correctness >= 0.5", "seed": 3}
FLAGS = ("--metrics", ",".join(METRICS), "--set", "accurate=correctness >= 0.5", "--seed", "3")
GATES = [{"mrr": ">= 0.8"}, {"metric": "recall@5", "min": 0.9}]


def worse(good):
    """The same questions, each with the answer of the next and documents in another order."""
    bad = [{**row, "retrieved_doc_ids": sorted(row["retrieved_doc_ids"]), "cost_usd": 0.0005} for row in good]
    for row, other in zip(bad, [*good[1:], good[0]], strict=True):
        row["answer"] = other["answer"]
    return bad


class Doors:
    """Two evaluations of the same questions, as runs in a folder and as jobs of a service."""

    def __init__(self, served, folder):
        self.served, self.home, self.files = served, folder / "home", {}
        self.client = ragassay.Client(served.url)
        served.jobs.store.redis.flushall()
        served.queue.sent.clear()
        self.runs, self.jobs = [], []
        for name, made in (("a", rows(30)), ("b", worse(rows(30)))):
            self.files[name] = folder / name / "rivers.jsonl"
            self.files[name].parent.mkdir()
            self.files[name].write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in made))
            named = {"name": name, **OPTIONS}  # else a comparison calls runs by their minutes, or by their ids
            self.runs.append(ragassay.evaluate(self.files[name], **named).run.id)
            self.jobs.append(served.submit(made, dataset="rivers", gates=GATES, **named)["id"])
            served.work()

    def get(self, path, **parameters):
        answer = self.served.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path, body, **parameters):
        answer = self.served.http.post(path, json=body, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.text

    def command(self, *arguments, code=0):
        got, out, err = self.cli(*arguments)
        assert got == code, err
        return out if code in (0, 1) else err

    def plain(self, text):
        """A document without ids and times, which differ between a run and a job."""
        for ids in (self.runs, self.jobs):
            for length in range(max(map(len, ids)), 14, -1):  # as names they are as short as tells them apart
                for name, one in zip("ab", ids, strict=True):
                    text = text.replace(one[:length], name)
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text)
        return _without_times(json.loads(re.sub(r"(duration\\*_s[^0-9]{1,20})[0-9.]+", r"\g<1>0", text)))


TIMES = "created_at duration_ms as_of started_at finished_at since until first last".split()


def _without_times(value):
    if isinstance(value, dict):
        return {key: _without_times(one) for key, one in value.items() if key not in ("run", *TIMES)}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def made(server, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("parity")
        patch.setenv("RAGASSAY_HOME", str(folder / "home"))
        patch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))
        doors = Doors(server, folder)
        with doors.client:
            yield doors


@pytest.fixture
def doors(made, cli, monkeypatch):
    monkeypatch.setenv("RAGASSAY_HOME", str(made.home))
    made.cli = cli
    return made


@pytest.fixture
def served(server):
    """The service with the jobs that ``made`` left there."""
    return server


def lines(results):
    return json.dumps([json.loads(result.model_dump_json()) for result in results])


def of_lines(text):
    keys = ("failure", "evidence")  # what the command line adds to a row
    found = [json.loads(line) for line in text.splitlines()]
    return json.dumps([{key: value for key, value in row.items() if key not in keys} for row in found])


def report(d):
    yield COMMAND, d.command("show", d.runs[0], "--json")
    yield COMMAND, d.command("show", d.jobs[0], "--json")
    yield PYTHON, ragassay.open_report(d.runs[0]).model_dump_json()
    yield CLIENT, d.client.report(d.jobs[0]).model_dump_json()
    yield HTTP, d.get(f"/v1/jobs/{d.jobs[0]}/report")


def every_row(d):
    yield COMMAND, of_lines(d.command("show", d.runs[0], "--rows", "--json"))
    yield COMMAND, of_lines(d.command("show", d.jobs[0], "--rows", "--json"))
    yield PYTHON, lines(ragassay.open_report(d.runs[0]).results["default"])
    yield CLIENT, lines(d.client.results(d.jobs[0]))
    yield HTTP, json.dumps(json.loads(d.get(f"/v1/jobs/{d.jobs[0]}/results", limit=200))["results"])


def chosen_rows(d):
    chosen = {"where": ["mrr<0.9"], "sort": "-latency_ms"}
    flags = ("--where", "mrr<0.9", "--sort", "-latency_ms", "--json")
    by_latency = sorted(ragassay.open_report(d.runs[0]).results["default"], key=lambda row: -row.latency_ms)
    yield COMMAND, of_lines(d.command("show", d.runs[0], *flags))
    yield COMMAND, of_lines(d.command("show", d.jobs[0], *flags))
    yield PYTHON, lines(row for row in by_latency if row.scores["mrr"].value < 0.9)
    yield CLIENT, lines(d.client.results(d.jobs[0], **chosen))
    yield HTTP, json.dumps(json.loads(d.get(f"/v1/jobs/{d.jobs[0]}/results", limit=200, **chosen))["results"])


def flags_of(options):
    texts = {name: ",".join(one) if isinstance(one, list) else str(one) for name, one in options.items()}
    return [text for name, one in texts.items() for text in (f"--{name}", one)]


def comparison(d, **options):
    flags = flags_of(options)
    yield COMMAND, d.command("compare", *d.runs, *flags, "--json")
    yield COMMAND, d.command("compare", *d.jobs, *flags, "--json")
    yield COMMAND, d.command("compare", d.runs[0], d.jobs[1], *flags, "--json")
    yield PYTHON, ragassay.compare(*d.runs, **options).model_dump_json()
    yield CLIENT, d.client.compare(*d.jobs, **options).model_dump_json()
    yield HTTP, d.post("/v1/comparisons", {"jobs": d.jobs, **options})


def trend(d, metric="mrr", **options):
    flags = flags_of(options)
    yield COMMAND, d.command("trend", metric, *flags, "--json")
    yield COMMAND, d.command("trend", metric, *flags, "--json", "--server", d.served.url)
    yield CLIENT, d.client.trend(metric, **options).model_dump_json()
    yield HTTP, d.get("/v1/trends", metric=metric, **options)


def costs(d, **options):
    flags = flags_of(options)
    yield COMMAND, d.command("cost", *flags, "--json")
    yield COMMAND, d.command("cost", *flags, "--json", "--server", d.served.url)
    yield PYTHON, ragassay.Costs.of_runs(**options).model_dump_json()
    yield CLIENT, d.client.costs(**options).model_dump_json()
    yield HTTP, d.get("/v1/costs", **options)


def gates(d):
    config = d.files["a"].parent / "gates.yaml"
    document = {"data": "rivers.jsonl", "gates": GATES, "metrics": METRICS, "accurate": OPTIONS["accurate"]}
    config.write_text(json.dumps(document))
    yield COMMAND, d.command("gate", config, "--run", d.runs[0], "--json", code=1)
    yield COMMAND, d.command("gate", config, "--run", d.jobs[0], "--json", code=1)
    yield PYTHON, ragassay.gate(run=d.runs[0], gates=GATES).model_dump_json()
    yield CLIENT, d.client.request(ragassay.Gates, "GET", "jobs", d.jobs[0], "gates").model_dump_json()
    yield HTTP, d.get(f"/v1/jobs/{d.jobs[0]}/gates")


def exported(d, form, read=str):
    for each in (d.runs[0], d.jobs[0]):
        yield COMMAND, json.dumps(read(d.command("show", each, "--format", form)))
    file = d.home / f"report.{form}"
    for door, one in ((PYTHON, ragassay.open_report(d.runs[0])), (CLIENT, d.client.report(d.jobs[0]))):
        one.save(file)
        yield door, json.dumps(read(file.read_text()))
    yield HTTP, json.dumps(read(d.get(f"/v1/jobs/{d.jobs[0]}/report", format=form)))


def version(document):
    """A version by its name, with the same digest wherever it was kept."""
    return {key: document[key] for key in ("name", "digest", "rows", "description")}


def dataset(d):
    d.command("data", "import", d.files["a"], "--description", "rivers of the north")
    d.client.datasets.import_(d.files["a"], description="rivers of the north")
    yield COMMAND, json.dumps(version(json.loads(d.command("data", "show", "rivers", "--json"))["version"]))
    for door, datasets in ((PYTHON, ragassay.Datasets()), (CLIENT, d.client.datasets)):
        yield door, json.dumps(version(datasets.show("rivers").model_dump(mode="json")))
    yield HTTP, json.dumps(version(json.loads(d.get("/v1/datasets/rivers"))))


def dataset_list(d):
    list(dataset(d))
    yield COMMAND, json.dumps([*map(version, json.loads(d.command("data", "list", "--json")))])
    for door, datasets in ((PYTHON, ragassay.Datasets()), (CLIENT, d.client.datasets)):
        yield door, json.dumps([version(one.model_dump(mode="json")) for one in datasets.list()])
    yield HTTP, json.dumps([*map(version, json.loads(d.get("/v1/datasets"))["datasets"])])


def dataset_rows(d):
    list(dataset(d))
    yield COMMAND, json.dumps(json.loads(d.command("data", "show", "rivers", "--json", "--rows", "30"))["first"])
    for door, datasets in ((PYTHON, ragassay.Datasets()), (CLIENT, d.client.datasets)):
        rows_of = [row.model_dump(mode="json", exclude_defaults=True) for row in datasets.rows("rivers")]
        yield door, json.dumps(rows_of)
    yield HTTP, json.dumps(json.loads(d.get("/v1/datasets/rivers/rows", limit=200))["rows"])


def metrics(d):
    yield COMMAND, d.command("info", "metrics", "--json")
    yield HTTP, json.dumps(json.loads(d.get("/v1/metrics"))["metrics"])


def jobs(d):
    yield COMMAND, d.command("job", "list", "--json", "--last", "2")
    yield CLIENT, json.dumps([one.model_dump(mode="json") for one in islice(d.client.jobs(), 2)])
    yield HTTP, json.dumps(json.loads(d.get("/v1/jobs", limit=2))["jobs"])


def schedules(d):
    list(dataset(d))
    d.client.schedules.add("nightly", "30 2 * * *", {"dataset": "rivers", "metrics": ["mrr"]}, replace=True)
    yield COMMAND, d.command("schedule", "list", "--json")
    yield CLIENT, json.dumps([one.model_dump(mode="json") for one in d.client.schedules.list()])
    yield HTTP, json.dumps(json.loads(d.get("/v1/schedules"))["schedules"])


def evaluation(d):
    file = d.files["a"]
    made = [json.loads(line) for line in file.read_bytes().splitlines()]
    posted = d.served.submit(made, dataset="rivers", **OPTIONS)["id"]
    client_job = d.client.submit(file, **OPTIONS)
    d.served.work()
    yield COMMAND, d.command("evaluate", file, *FLAGS, "--json")
    yield PYTHON, ragassay.evaluate(file, **OPTIONS).model_dump_json()
    yield CLIENT, d.client.report(d.client.wait(client_job)).model_dump_json()
    yield HTTP, d.get(f"/v1/jobs/{posted}/report")


THROUGH_ALL = [
    *((case, {}) for case in (report, every_row, chosen_rows, comparison, costs, gates)),
    *((case, {}) for case in (dataset, dataset_list, dataset_rows, evaluation)),
    (comparison, {"metrics": ["mrr", "correctness"], "alpha": 0.01, "correction": "bonferroni", "examples": 1}),
    (costs, {"by": "system,judge", "dataset": "rivers", "zone": "Europe/Berlin"}),
    (exported, {"form": "csv", "read": lambda text: list(csv.DictReader(io.StringIO(text)))}),
    (exported, {"form": "md"}),
    (exported, {"form": "xml"}),
]  # fifteen; below: what is of a service, or of the command line, alone
THROUGH_SOME = [
    *((case, {}) for case in (trend, metrics, jobs, schedules)),
    (trend, {"metric": "latency_ms.p95", "system": "default", "dataset": "rivers", "last": 1}),
]


@pytest.mark.parametrize(("case", "options"), THROUGH_ALL)
def test_fifteen_uses_give_the_same_document_through_every_door(doors, case, options):
    assert same_documents(doors, case, options) == {COMMAND, PYTHON, CLIENT, HTTP}


@pytest.mark.parametrize(("case", "options"), THROUGH_SOME)
def test_the_doors_that_a_use_has_give_the_same_document(doors, case, options):
    assert len(same_documents(doors, case, options)) > 1


def same_documents(doors, case, options):
    """The doors that a use has; fails if their documents differ."""
    answers = [(door, doors.plain(text)) for door, text in case(doors, **options)]
    first = answers[0][1]
    assert first
    for door, other in answers:
        assert other == first, door
    return {door for door, _ in answers}


def test_a_job_of_a_command_gives_the_same_report(doors, worker):
    here = doors.command("evaluate", doors.files["a"], *FLAGS, "--json")
    there = doors.command("evaluate", doors.files["a"], *FLAGS, "--json", "--server", doors.served.url)
    assert doors.plain(there) == doors.plain(here)


def test_every_door_refuses_the_same_in_the_same_words(doors):
    file, wrong = doors.files["a"], {"metrics": ["mrrr"]}
    texts = [doors.command("evaluate", file, "--metrics", "mrrr", code=2)]
    texts += [doors.command("evaluate", file, "--metrics", "mrrr", "--server", doors.served.url, code=2)]
    for call in (ragassay.evaluate, doors.client.submit):
        with pytest.raises(ragassay.AssayError) as refused:
            call(file, **wrong)
        texts.append(str(refused.value))
    texts.append(doors.served.http.post("/v1/jobs", json={"samples": rows(1), **wrong}).text)
    for text in texts:
        assert re.search("unknown metric 'mrrr'.*did you mean mrr", text)
