"""The operator's plug-ins in real workers: a metric and a judge of one's own, and a composite of both in a job's body."""

from pathlib import Path

from service.running import Service

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS = [
    {
        "query_id": "a",
        "query": "How long?",
        "answer": "Backups are kept.",
        "contexts": ["Daily backups are kept for a week."],
    },
    {"query_id": "b", "query": "When?", "answer": "At noon.", "contexts": ["Backups start at two."]},
]


def test_workers_judge_and_score_with_the_operators_plugins():
    plugins = f"{EXAMPLES / 'own_metric.py'},{EXAMPLES / 'own_judge.py'}"
    with Service(workers=1, plugins=plugins, preload="nothing", traced=False) as service:
        body = {
            "samples": ROWS,
            "judge": "words",
            "metrics": ["faithfulness", "short_enough"],
            "composites": {"both": {"faithfulness": 1, "short_enough": 1}},
        }
        answer = service.ready().client.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        report = service.finished(answer.json()["id"], within_s=60)
    assert [row["scores"]["both"]["value"] for row in report["results"]["default"]] == [1.0, 0.5]
    assert report["provenance"]["judge"]["name"] == "words"
    assert set(report["provenance"]["plugins"]) == {"own_metric.py", "own_judge.py"}
