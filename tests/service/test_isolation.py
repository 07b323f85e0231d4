"""Two projects whose jobs one worker process works on: what a provider says about one project's rows stays there."""

import pytest

from polling import until
from provider import Provider, good, status
from service.running import Service, job_body, rows

KEY = "a-key-for-the-tests"
ANSWERS = {
    "denied": status(403, message="this input was flagged"),
    "rejected": status(401, message="no such key"),
    "broken": status(500, message="overloaded"),
}


@pytest.fixture(scope="module")
def evaluated():
    """Submits a job for a project; the job once it ended, or waits for its provider."""

    def answered(seen):
        return next((answer for word, answer in ANSWERS.items() if f" {word} number" in seen.user), good)(seen)

    with Provider(then=answered) as provider:
        settings = {"bootstrap_key": KEY, "judges": "gpt-4o-mini", "workers": 1, "traced": False}
        with Service(api_base=provider.url, **settings) as service:

            def evaluate(project, word, count):
                service.client.headers.update({"Authorization": f"Bearer {KEY}", "X-Ragassay-Project": project})
                job = service.answered("POST", "/v1/jobs", json=job_body(rows(count, word))).json()["id"]
                ends = ("finished", "failed")
                until(lambda: service.job(job)["status"] in ends or service.job(job)["waiting"], 120, "an end")
                return service.job(job)

            service.ready()
            yield evaluate


@pytest.mark.parametrize("word", ANSWERS)
def test_a_job_of_another_project_finishes_after_a_provider_refused_or_failed(evaluated, word):
    first, second = evaluated("a", word, 1), evaluated("b", f"healthy{word}", 5)
    assert first["progress"]["failed"] or first["error"] or first["waiting"]
    assert (second["status"], second["progress"]["failed"]) == ("finished", 0), first
    assert (second["error"], second["waiting"]) == (None, None)
