"""No page and no help text names a feature that is gone."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REMOVED = (
    "stop_when",
    "--stop-when",
    "ConfidenceSequence",
    "hedged",
    "hedging",
    "passes: 2",
    "RAGASSAY_PASSES",
    "judge_mode: soft",
    "judge calibrate",
    "isotonic",
    "--calibration",
    "variance_split",
    "rows_instead",
    "--canary",
    "canary panel",
    "judge_drift",
    "datasets/canary",
    "judge attack",
    "--half-width",
    "--composite",
    "rougeL(stem=true)",
    "half_life_days",
    "rank-biserial",
    "BCa",
    "feedback_terms",
    "late_interaction",
    "default_route",
    "MinHash",
    "--group-by",
    "/replay",
    "/deliveries",
    "/rotate",
    "RAGASSAY_SMTP",
    "ragassay webhook",
    "ragassay alerts",
    "lease_usd",
    "leased_usd",
    "admin requeue",
    "ragassay retry",
    "ragassay status",
    "ragassay cancel",
    "ragassay alive",
    "ragassay completion",
    "ragassay comment",
    "AsyncClient",
    "client.events",
    "client.webhooks",
    "client.alerts",
    "redbeat",
    "systemd",
    "systemctl",
    "deploy/compose/compose.yml",
    "make upgrade",
    "worse=correctness",
    "fontTools",
    "context_window",
    "sample_timeout_s",
    "harmonic_mean",
    "--unanswerable",
    "--expires-in-days",
    "--category",
    "--difficulty",
    "--overlap",
    "--catch-up",
    "deadline_s",
    "RAGASSAY_DATA_FOLDER",
    "RAGASSAY_PROJECT_REQUESTS_PER_MINUTE",
    "DELETE /v1/jobs",
    "info schema benchmark",
)


@pytest.mark.parametrize("name", REMOVED)
def test_pages_do_not_name_what_was_removed(name):
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "mkdocs.yml", *ROOT.glob("docs/**/*.md")]
    pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    assert [page.relative_to(ROOT).as_posix() for page in pages if pattern.search(page.read_text())] == []
