"""The one comment that ragassay has on a pull request: written once, replaced by later ones with the same marker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import orjson

from ragassay.errors import BadSettings, Unavailable, reason_from
from ragassay.settings import GitHub

MARKER = re.compile(r"^<!-- (ragassay [^>]*?) -->$", re.MULTILINE)
LONGEST = 65_536  # characters of a comment
_CUT = "\n\n... the rest is cut: a comment holds 65,536 characters.\n"
_TIMEOUT_S = 30.0


def pull_request(github: GitHub) -> int | None:
    """The number of the pull request that a workflow runs for; None for a push, a schedule and the like.

    Raises BadSettings where the event can't be read.
    """
    if github.event_path is None:
        return None
    try:
        event = orjson.loads(github.event_path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadSettings(f"can't be read: {reason_from(error)}", where=str(github.event_path)) from None
    about = (event.get("pull_request") or event.get("issue") or {}) if isinstance(event, dict) else {}
    number = about.get("number") if "pull_request" in event or "pull_request" in about else None
    return number if isinstance(number, int) else None


def comment(text: str, number: int, github: GitHub, *, key: str | None = None) -> str:
    """Put Markdown that has a marker on a pull request, in place of the comment with the same marker; returns its address.

    key: tells apart the comments of several jobs on one pull request. Raises BadSettings for text without a marker, and
    where GitHub refuses; Unavailable where it does not answer.
    """
    found = MARKER.search(text)
    if found is None:
        raise BadSettings("the text has no hidden marker, by which a later comment could replace it",
                          hint="write it by: ragassay gate -o gates.md")  # fmt: skip
    if not (github.repository and github.token):
        missing = "GITHUB_REPOSITORY" if not github.repository else "GITHUB_TOKEN"
        raise BadSettings(
            "is not set", where=missing, hint="a workflow has both: env: {GITHUB_TOKEN: ${{ github.token }}}"
        )
    marker = f"<!-- {found[1]}{f': {key}' if key else ''} -->"
    body = marker + "\n" + MARKER.sub("", text, count=1).lstrip("\n")
    if len(body) > LONGEST:
        body = body[: LONGEST - len(_CUT)] + _CUT
    headers = {"Authorization": f"Bearer {github.token}", "Accept": "application/vnd.github+json"}
    issues = f"{github.api_url.rstrip('/')}/repos/{github.repository}/issues"
    with httpx.Client(headers=headers, timeout=_TIMEOUT_S) as client:
        before = next(
            (each for each in _comments(client, f"{issues}/{number}/comments") if _begins(each, marker)), None
        )
        if before is None:
            done = _asked(client, "POST", f"{issues}/{number}/comments", {"body": body})
        else:
            done = _asked(client, "PATCH", f"{issues}/comments/{before['id']}", {"body": body})
    return str(done.json().get("html_url"))


def _begins(comment: dict[str, Any], marker: str) -> bool:
    return str(comment.get("body")).startswith(marker)


def _comments(client: httpx.Client, address: str) -> Iterator[dict[str, Any]]:
    """All comments of a pull request, page by page."""
    following: str | None = f"{address}?per_page=100"
    while following:
        page = _asked(client, "GET", following)
        yield from page.json()
        following = page.links.get("next", {}).get("url")


def _asked(client: httpx.Client, method: str, address: str, body: dict[str, str] | None = None) -> httpx.Response:
    try:
        answer = client.request(method, address, json=body)
    except httpx.HTTPError as error:
        raise Unavailable(f"GitHub does not answer: {reason_from(error)}") from None
    if answer.status_code >= 500 or answer.status_code == 429:
        raise Unavailable(f"GitHub answers {answer.status_code}")
    if answer.is_error:
        hint = "the token needs pull-requests: write; that of a fork's pull request has it not"
        raise BadSettings(f"GitHub answers {answer.status_code} to {method} {httpx.URL(address).path}", hint=hint)
    return answer
