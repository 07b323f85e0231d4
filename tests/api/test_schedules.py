"""``/v1/schedules``: planned, changed, run, with a history; a worker of the test makes the jobs, a clock's round claims."""

import json

import orjson
import pytest

from api_server import problem, rows
from ragassay.api import schedules
from ragassay.config.schedules import ScheduleChange

GATES = [{"mrr": ">= 0.7"}]


@pytest.fixture
def planned(served):
    """The API with a dataset of four rows; every second one has its document in second place, so that mrr is 0.75."""
    answers = "".join(line(row) for row in rows(4))
    headers = {"Content-Type": "application/x-ndjson"}
    assert served.http.put("/v1/datasets/answers", content=answers, headers=headers).status_code == 201
    yield served
    served.queue.planned._given_now = None


def line(row):
    return json.dumps(row) + "\n"


def body(name="nightly", cron="30 2 * * *", **more):
    job = {"dataset": "answers", "metrics": ["mrr"], **more.pop("job", {})}
    return {"name": name, "cron": cron, "job": job, **more}


def create(served, **more):
    answer = served.http.post("/v1/schedules", json=body(**more))
    assert answer.status_code == 201, answer.text
    return answer.json()


def history(served, name="nightly"):
    return served.http.get(f"/v1/schedules/{name}/runs").json()["runs"]


def let_pass(served, ms):
    """The clock of the schedules goes so much further, and nobody waits for it."""
    schedules = served.queue.planned
    clock = schedules._given_now or (lambda: int(served.jobs.store.now_ms()))
    schedules._given_now = lambda: clock() + ms


def run_now(served, name="nightly"):
    """A run that somebody asks for, to its end."""
    asked = served.http.post(f"/v1/schedules/{name}/run")
    assert asked.status_code == 202, asked.text
    served.work()
    return history(served, name)[0]


def test_a_schedule_shows_what_it_is_and_its_next_times(planned):
    answer = planned.http.post("/v1/schedules", json=body(zone="Europe/Berlin"))
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/schedules/nightly"
    made = answer.json()
    assert made == planned.http.get("/v1/schedules/nightly").json()
    assert (made["catch_up"], made["paused"], made["last"]) == ("once", False, None)
    assert len(made["next"]) == 5
    assert all(at.endswith(":30:00+00:00") for at in made["next"])
    assert planned.http.get("/v1/schedules").json() == {"schedules": [made], "next": None}
    assert history(planned) == []


def test_a_time_that_comes_has_one_job_which_says_what_it_is_of(planned):
    create(planned, cron="* * * * *", job={"gates": GATES})
    let_pass(planned, 60_100)
    planned_ = planned.queue.planned
    planned_.tick()
    planned_.tick()
    planned.queue.sent *= 2  # each message comes twice
    planned.work()
    first = history(planned)[-1]
    assert (first["status"], first["gates_passed"], first["gates_missed"]) == ("finished", 1, 0)
    job = planned.http.get(f"/v1/jobs/{first['job']}").json()
    assert job["planned"] == {"schedule": "nightly", "slot": first["slot"]}
    assert job["name"] == "nightly"
    jobs = planned.http.get("/v1/jobs").json()["jobs"]
    assert len(jobs) == len([run for run in history(planned) if run["job"]])


def test_drops_are_measured_from_the_newest_run_that_passed(planned):
    create(planned, job={"baseline": "last-passed", "gates": [*GATES, {"metric": "mrr", "max_drop": 0.01}]})
    first = run_now(planned)
    assert (first["gates_passed"], first["gates_missed"]) == (1, 0)
    assert first["reason"] == "no run on these questions has passed yet, so nothing was compared with a baseline"
    second = run_now(planned)
    assert (second["gates_passed"], second["gates_missed"], second["reason"]) == (2, 0, None)
    worse = "".join(line({**row, "retrieved_doc_ids": ["x", "y", "z", row["relevant_doc_ids"][0]]}) for row in rows(4))
    planned.http.put("/v1/datasets/answers", content=worse, headers={"Content-Type": "application/x-ndjson"})
    third, fourth = run_now(planned), run_now(planned)
    assert (third["gates_missed"], fourth["gates_missed"]) == (2, 2)
    gates = planned.http.get(f"/v1/jobs/{fourth['job']}/gates").json()
    assert gates["baseline"] == second["job"]
    other = "".join(line({**row, "query": f"{row['query']} And else?"}) for row in rows(4))
    planned.http.put("/v1/datasets/answers", content=other, headers={"Content-Type": "application/x-ndjson"})
    fifth = run_now(planned)
    assert (fifth["gates_passed"], fifth["gates_missed"], fifth["reason"]) == (1, 0, first["reason"])


def test_a_pause_leaves_times_out_and_missing_none(planned):
    create(planned, cron="* * * * *")
    paused = planned.http.patch("/v1/schedules/nightly", json={"paused": True}).json()
    assert (paused["paused"], paused["next"]) == (True, [])
    let_pass(planned, 60_100)
    planned.queue.planned.tick()
    assert history(planned) == []
    again = planned.http.patch("/v1/schedules/nightly", json={"paused": False}).json()
    assert again["next"][0] > paused["changed_at"]
    assert again["created_at"] == paused["created_at"]


def test_a_change_is_refused_if_the_schedule_changed_since_it_was_read(planned):
    create(planned)
    read = planned.http.get("/v1/schedules/nightly").headers["etag"]
    other = planned.http.patch("/v1/schedules/nightly", json={"paused": True}, headers={"If-Match": read})
    assert other.status_code == 200
    late = planned.http.patch("/v1/schedules/nightly", json={"paused": False}, headers={"If-Match": read})
    assert problem(late, 412)["where"] == "If-Match"
    newest = {"If-Match": other.headers["etag"]}
    assert planned.http.patch("/v1/schedules/nightly", json={"paused": False}, headers=newest).status_code == 200


def test_lists_are_read_page_by_page(planned):
    for name in ("c", "a", "b"):
        create(planned, name=name)
    first = planned.http.get("/v1/schedules?limit=2").json()
    assert ([one["name"] for one in first["schedules"]], first["next"]) == (["a", "b"], "b")
    rest = planned.http.get("/v1/schedules?limit=2&cursor=b").json()
    assert ([one["name"] for one in rest["schedules"]], rest["next"]) == (["c"], None)
    made = [run_now(planned, "a")["slot"] for _ in range(3)]
    page = planned.http.get("/v1/schedules/a/runs?limit=2").json()
    assert [run["slot"] for run in page["runs"]] == [made[2], made[1]]
    last = planned.http.get(f"/v1/schedules/a/runs?limit=2&cursor={page['next']}").json()
    assert ([run["slot"] for run in last["runs"]], last["next"]) == ([made[0]], None)


def test_last_passed_is_the_state_of_a_job_after_its_retry(planned):
    create(planned, job={"baseline": "last-passed", "gates": [*GATES, {"metric": "mrr", "max_drop": 0.01}]})
    first, second = run_now(planned), run_now(planned)
    planned.queue.planned.tick()  # writes down that they finished
    store = planned.jobs.store
    report = planned.http.get(f"/v1/jobs/{second['job']}/gates").json()
    for result in report["results"]:
        result["passed"] = False
    store.redis.set(store.key(second["job"], "gates.json"), orjson.dumps(report))  # as a retry that misses them does
    assert history(planned)[0]["gates_missed"] == 2
    third = run_now(planned)
    assert planned.http.get(f"/v1/jobs/{third['job']}/gates").json()["baseline"] == first["job"]


def test_change_schedule_loses_no_change_made_during_its_check(planned, monkeypatch):
    create(planned)
    check = schedules._check

    async def slow(*arguments):
        await check(*arguments)
        known, new = planned.queue.planned.changed("nightly", ScheduleChange(paused=True))
        planned.queue.planned.change(known, new)

    monkeypatch.setattr(schedules, "_check", slow)
    problem(planned.http.patch("/v1/schedules/nightly", json={"cron": "0 5 * * *"}), 409)
    now = planned.http.get("/v1/schedules/nightly").json()
    assert (now["paused"], now["cron"]) == (True, body()["cron"])


REFUSED = {
    "no cron": ({"cron": "30 2 * *"}, "is no cron expression: it has 4 fields instead of 5"),
    "a day that never comes": ({"cron": "0 0 31 2 *"}, "bad day-of-month"),
    "an unknown zone": ({"zone": "Europe/Belin"}, "unknown time zone 'Europe/Belin'"),
    "a name that is none": ({"name": "a/b"}, "name: "),
    "rows of its own": ({"job": {"samples": rows(1)}}, "a schedule has no rows of its own"),
    "no rows": ({"job": {"dataset": None}}, "name a stored dataset"),
    "a system that is not registered": ({"job": {"systems": ["online"]}}, "unknown registered system 'online'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_not_run_is_refused_at_once(planned, case):
    given, what = REFUSED[case]
    document = problem(planned.http.post("/v1/schedules", json=body(**given)), 422)
    assert what in document["detail"]
    assert planned.http.get("/v1/schedules").json()["schedules"] == []


def test_a_name_is_taken_once_and_what_is_not_there_is_not_found(planned):
    create(planned)
    problem(planned.http.post("/v1/schedules", json=body()), 409)
    problem(planned.http.post("/v1/schedules", json=body(name="b", job={"dataset": "nothing"})), 404)
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/runs"), ("POST", "/run")):
        more = {"json": {"paused": True}} if method == "PATCH" else {}
        problem(planned.http.request(method, f"/v1/schedules/nothing{path}", **more), 404)


def mrr(served, run):
    assert run["status"] == "finished", run
    systems = served.http.get(f"/v1/jobs/{run['job']}/report").json()["systems"]
    return {name: system["metrics"]["mrr"]["value"] for name, system in systems.items()}
