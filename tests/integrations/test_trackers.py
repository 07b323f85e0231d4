"""What trackers of experiments and a collector of OpenTelemetry are sent; real trackers are in ``real_*.py`` (make peers)."""

import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler
from types import ModuleType, SimpleNamespace

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from handmade_reports import make_report, row
from loopback import LoopbackServer, Quiet
from ragassay.core.errors import MissingExtra, Unavailable
from ragassay.integrations import mlflow, opentelemetry, wandb
from ragassay.integrations.mlflow import legal, named


def test_figures_are_those_that_have_a_value_by_the_names_of_gates():
    report = make_report([row(1, mrr=1.0, latency=10.0, cost=0.5), row(2, mrr=None, latency=30.0), row(3, mrr=0.5)])
    found = report.figures()["default"]
    known = {"mrr": 0.75, "mrr.n": 2, "mrr.missing": 1, "latency_ms.p50": 20.0, "cost_usd.total": 0.5}
    assert {name: found[name] for name in known} == known
    assert found["mrr.low"] < 0.75 < found["mrr.high"]
    assert None not in found.values()


def test_names_that_mlflow_refuses_are_replaced():
    assert [legal(name) for name in ("ndcg@10.low", "latency_ms.p95", "own(b)")] == [
        "ndcg_at_10.low",
        "latency_ms.p95",
        "own_b_",
    ]
    assert named({"own(b)": 0.1, "own[b]": 0.2}) == {"own_b_": 0.1, "own_b__": 0.2}, "no figure takes another's place"


class FakeMLflow(ModuleType):
    """Notes the runs that are begun, and by run what is logged."""

    def __init__(self):
        super().__init__("mlflow")
        self.runs, self.active, self.experiment = {}, [], None
        for name in ("log_artifacts", "log_metrics", "set_tag", "log_params", "log_table"):
            setattr(self, name, partial(self.note, name))

    def note(self, what, *_):
        self.runs[self.active[-1].info.run_id].append(what)

    def active_run(self):
        return self.active[-1] if self.active else None

    def set_experiment(self, name):
        self.experiment = name

    @contextmanager
    def start_run(self, *, run_name, nested=False):
        assert nested or not self.active, "as MLflow does"
        run_id = "/".join([*(run.info.run_id for run in self.active[-1:]), run_name])
        self.runs[run_id] = []
        self.active.append(SimpleNamespace(info=SimpleNamespace(run_id=run_id)))
        yield self.active[-1]
        self.active.pop()


@pytest.mark.parametrize(
    ("systems", "is_active", "ids"),
    [
        (["a"], True, ["mine"]),
        (["a", "b"], True, ["mine/a", "mine/b"]),
        (["a"], False, ["run-1"]),
        (["a", "b"], False, ["run-1/a", "run-1/b"]),
    ],
)
def test_mlflow_log_uses_the_active_run_and_else_a_new_one(systems, is_active, ids, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", fake := FakeMLflow())
    report = make_report({system: [row(1, system, mrr=1.0)] for system in systems})
    with fake.start_run(run_name="mine") if is_active else nullcontext():
        assert mlflow.log(report, experiment="rag") == ids
        assert (len(fake.active), fake.experiment) == ((1, None) if is_active else (0, "rag"))
    assert list(fake.runs) == list(dict.fromkeys([ids[0].partition("/")[0], *ids]))
    assert fake.runs[ids[0]][-4:] == ["log_metrics", "set_tag", "log_params", "log_table"]


@pytest.mark.parametrize(("tracker", "extra"), [(mlflow, "mlflow"), (wandb, "wandb")])
def test_without_the_package_the_error_says_how_to_install_it(tracker, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, extra, None)  # as where it is not installed
    with pytest.raises(
        MissingExtra, match=rf"needs the extra '{extra}'; install it: pip install 'ragassay\[{extra}\]'"
    ):
        tracker.log(make_report([row(1, mrr=1.0)]))


TRACE = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}


class Collector(LoopbackServer):
    """``records`` are those that arrived; ``refuses`` is the status that the others get."""

    def __init__(self):
        self.records, self.requests, self.refuses = [], 0, None
        super().__init__(_Logs)


class _Logs(Quiet, BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        if self.server.refuses is None:
            assert self.path == "/v1/logs"
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.server.records += [record for scope in resource.scope_logs for record in scope.log_records]
        self.send_response(self.server.refuses or 200)
        self.end_headers()
        self.wfile.write(ExportLogsServiceResponse().SerializeToString())


@pytest.fixture
def collector():
    with Collector() as running:
        yield running


def attributes(record):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def test_each_score_is_an_event_about_the_span_that_its_row_came_from(collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    report = make_report([row(1, metadata=TRACE, accurate=1.0, mrr=0.5), row(2, accurate=0.0, mrr=None)])
    assert opentelemetry.log(report) == 4
    first, second, third, fourth = collector.records
    assert first.event_name == "gen_ai.evaluation.result"
    assert attributes(first) == {
        "gen_ai.evaluation.name": "accurate",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "pass",
        "ragassay.query_id": "q1",
        "ragassay.system": "default",
        "ragassay.run": "run-1",
        "ragassay.judge": "local",
    }
    assert (first.trace_id.hex(), first.span_id.hex()) == (TRACE["trace_id"], TRACE["span_id"])
    assert (second.trace_id, attributes(second)["gen_ai.evaluation.score.value"]) == (first.trace_id, 0.5)
    assert (third.trace_id, attributes(third)["gen_ai.evaluation.score.label"]) == (b"", "fail")
    failed = attributes(fourth)
    assert (failed["error.type"], failed["gen_ai.evaluation.explanation"]) == ("failed", "the judge failed")
    assert "gen_ai.evaluation.score.value" not in failed


def test_more_events_than_a_queue_holds_arrive_and_a_collector_that_refuses_is_an_error(collector):
    report = make_report([row(n, mrr=0.5, map=0.5) for n in range(600)])
    assert opentelemetry.log(report, endpoint=collector.url) == 1200 == len(collector.records)
    assert collector.requests == 3
    collector.refuses = 401
    with pytest.raises(Unavailable, match="the collector took 0 of 500 events"):
        opentelemetry.log(report, endpoint=collector.url)
    assert collector.requests == 4
