"""``/v1/alerts`` and ``/v1/webhooks``: the notifications of a project, and their receivers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field

from ragassay.api.bodies import json_body
from ragassay.api.dependencies import Page, Reads, Submits
from ragassay.api.problems import takes
from ragassay.api.security import Reader, Submitter
from ragassay.core.models import FrozenModel
from ragassay.core.paging import BY_TIME, by_time, page_of
from ragassay.service.notifications import (
    NotificationKind,
    NotificationPage,
    Webhook,
    WebhookFormat,
    WebhookList,
    WebhookSecret,
)
from ragassay.service.notifier import MAX_URL

router = APIRouter(prefix="/v1", tags=["alerts"])
WebhookId = Annotated[
    str,
    Path(description="What POST /v1/webhooks gave.", max_length=100, examples=["wh_b1946ac92492d2347c6235b4d2611184"]),
]


class NewWebhook(FrozenModel):
    """A receiver, and the kinds of notifications that it gets."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"example": {"url": "https://alerts.example/ragassay", "kinds": ["regression"]}}
    )

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL, description="where notifications are sent, by POST")]
    kinds: Annotated[
        tuple[NotificationKind, ...] | None,
        Field(min_length=1, max_length=20, description="default: all alerts, and no end of a job"),
    ] = None
    format: Annotated[
        WebhookFormat, Field(description="'standard' is signed JSON; 'slack' is {\"text\": ...} without a signature")
    ] = "standard"


class _AlertsQuery(Page):
    kind: Annotated[NotificationKind | None, Field(description="only those of this kind")] = None


@router.get("/alerts")
def list_alerts(jobs: Reads, caller: Reader, query: Annotated[_AlertsQuery, Query()]) -> NotificationPage:
    """Notifications of the project's jobs and schedules, newest first, for 90 days.

    With ``kind``, a page may hold fewer than ``limit``, even none, and have a ``next``. ``job_finished`` and ``job_failed``
    are kept only where a webhook asks for them.
    """
    return jobs.notifier.page(caller.project, kind=query.kind, cursor=query.cursor, limit=query.limit)


@router.post("/webhooks", status_code=201, openapi_extra=takes(NewWebhook))
async def add_webhook(
    jobs: Submits, caller: Submitter, new: Annotated[NewWebhook, json_body(NewWebhook)]
) -> WebhookSecret:
    """Send notifications to a URL. The answer holds the secret that signs them, which is not shown again."""
    return await to_thread.run_sync(jobs.notifier.add_webhook, caller.project, new.url, new.kinds, new.format)


@router.get("/webhooks")
def list_webhooks(jobs: Reads, caller: Reader, query: Annotated[Page, Query()]) -> WebhookList:
    """The project's webhooks, the oldest first, with the outcome of the last try of each."""
    page, after = page_of(jobs.notifier.webhooks(caller.project), _order, form=BY_TIME, **dict(query))
    return WebhookList(webhooks=page, next=after)


def _order(webhook: Webhook) -> str:
    return by_time(datetime.fromisoformat(webhook.created_at), webhook.id)


@router.delete("/webhooks/{webhook}")
def delete_webhook(jobs: Submits, caller: Submitter, webhook: WebhookId) -> Webhook:
    """Delete a webhook and all that waits for it; the answer is what it was."""
    return jobs.notifier.remove_webhook(caller.project, webhook)


@router.post("/webhooks/{webhook}/test", status_code=202)
def test_webhook(jobs: Submits, caller: Submitter, webhook: WebhookId) -> Webhook:
    """Queue a notification of the kind ``test``; its outcome is ``last_status`` or ``last_error`` in the list of webhooks."""
    return jobs.notifier.test_webhook(caller.project, webhook)
