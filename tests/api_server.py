"""The API as its callers meet it: uvicorn on a loopback port, over a real Redis. A test answers the wake-ups itself."""

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import httpx
from starlette.datastructures import Headers

from job_workers import expire_leases
from polling import until
from ragassay.api.app import create_app
from ragassay.api.middleware import PROTECTIVE
from ragassay.api.server import server
from ragassay.api.submission import read_scheduled
from ragassay.core.http_guard import Allowed
from ragassay.core.settings import Settings
from ragassay.evaluation.evaluate import ScoringConfig
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.local import LocalJudge
from ragassay.judges.panel import Panel, Rater
from ragassay.service.jobs import Jobs
from ragassay.service.notifier import Notifier
from ragassay.service.redis import MAX_DEATHS, RedisStore
from ragassay.service.schedules import Schedules


class RecordingQueue:
    """Remembers what was sent; ``answer`` does the work that a worker would do."""

    def __init__(self):
        self.sent = []

    def enqueue(self, job):
        self.sent.append(("work", (job,)))

    def finalize(self, job):
        self.sent.append(("finalize", (job,)))

    def start(self, project, schedule, slot_ms):
        self.sent.append(("start", (project, schedule, slot_ms)))

    def has_waiting(self):
        return bool(self.sent)

    def waiting(self, queue):
        return repr(self.sent).encode()

    def answer(self, jobs, *, most=10_000):
        while self.sent and most:
            use_case, arguments = self.sent.pop(0)
            if use_case != "start":
                getattr(jobs, use_case)(*arguments)
            else:
                project, *run = arguments
                planned = self.planned.of(project)
                planned.start(*run, partial(read_scheduled, settings=self.settings, jobs=planned.jobs))
            most -= 1
        jobs.notifier.deliver_due()


class Lexical(Runtime):
    """Makes the local judge without an embedding model."""

    def __init__(self, settings=None):
        super().__init__(settings or Settings.model_construct())

    def scoring(self, spec, metrics=()):
        return ScoringConfig(spec, tuple(metrics), Panel([Rater((LocalJudge(),))]), None, "the tests need no model")


@dataclass
class Served:
    """A running server: ``http`` calls it, ``work`` does what workers would do."""

    url: str
    http: httpx.Client
    jobs: Jobs
    queue: RecordingQueue

    def work(self, **most):
        self.queue.answer(self.jobs, **most)

    def submit(self, samples, **options):
        answer = self.http.post("/v1/jobs", json={"samples": samples, **options})
        assert answer.status_code == 202, answer.text
        return answer.json()


class Witness:
    """Passes requests on to the application, and remembers which answers lack a protective header or name the server."""

    def __init__(self, app):
        self.app, self.complaints = app, set()

    async def __call__(self, scope, receive, send):
        async def out(message):
            if message["type"] == "http.response.start":
                headers = Headers(raw=message["headers"])
                wrong = [*(name for name in PROTECTIVE if name not in headers), *({"server"} & set(headers))]
                self.complaints |= {(scope["method"], scope["path"], name) for name in wrong}
            await send(message)

        await self.app(scope, receive, out)


@contextmanager
def listening(app, **options):
    """The address of an application that uvicorn serves in a thread, on a free port; it ends with the block."""
    running = server(app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=2, **options)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until(lambda: running.started, what="the server did not start")
    try:
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(10)


@contextmanager
def serving(redis_url, settings=None, *, jobs=None, registered=None):
    """Uvicorn in a thread on a free port; ends with the block."""
    settings = settings or Settings()
    queue = RecordingQueue()
    store = RedisStore(redis_url, patient=False)
    notifier = Notifier(store, allowed=Allowed.read(["127.0.0.1"]))
    jobs = jobs or Jobs(store, queue, Lexical(settings), registered, notifier)
    planned = Schedules(jobs, queue, again_s=2)
    queue.planned, queue.settings = planned, settings
    witness = Witness(create_app(jobs, settings, planned))
    headers = {"Authorization": f"Bearer {settings.bootstrap_key}"} if settings.bootstrap_key else {}
    with ExitStack() as closing:
        closing.callback(jobs.store.redis.close)
        closing.callback(jobs.close)
        url = closing.enter_context(listening(witness, lifespan="on"))
        http = closing.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=30, headers=headers))
        yield Served(url, http, jobs, queue)
    assert witness.complaints == set()


def with_failed_rows(served, job):
    """Finish a job whose first chunk killed its workers."""
    store = served.jobs.store
    for _ in range(MAX_DEATHS):
        assert store.claim(job) is not None
        expire_leases(store, job)
        served.jobs.tick()
    served.work()


def rows(n, **extra):
    return [
        {
            "query_id": f"q{i}",
            "query": f"Where does river number {i} flow into the sea?",
            "ground_truth_answer": f"River number {i} reaches the sea at harbour {i}.",
            "relevant_doc_ids": [f"d{i}"],
            "answer": f"River number {i} reaches the sea at harbour {i}.",
            "contexts": [f"River number {i} reaches the sea at harbour {i}.", "It rains a lot there."],
            "retrieved_doc_ids": [f"d{i}", "d-other"] if i % 2 == 0 else ["d-other", f"d{i}"],
            "latency_ms": 100.0 + i,
            "cost_usd": 0.001,
            **extra,
        }
        for i in range(n)
    ]


def problem(answer, status):
    """The problem document of an answer, checked for what every one must have."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:300]}"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    document = answer.json()
    assert document["status"] == status
    assert document["title"]
    assert document["code"]
    assert len(document["detail"]) > 10
    assert "Traceback" not in answer.text
    return document
