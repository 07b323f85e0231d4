"""``/v1/alerts`` and ``/v1/webhooks``: what people were told, and who is told."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field

from ragassay.access import Requester
from ragassay.api.bodies import check_json, read_as
from ragassay.api.jobs import Body, Page, QueryParameters, Service
from ragassay.api.problems import documented, takes
from ragassay.api.security import by_method, requires
from ragassay.models import FrozenModel
from ragassay.notices import (
    DeliveryPage,
    NoticeKind,
    NoticePage,
    Replayed,
    Webhook,
    WebhookFormat,
    WebhookList,
    WebhookSecret,
)
from ragassay.webhooks import LONGEST_URL, Webhooks

router = APIRouter(prefix="/v1", tags=["alerts"])
_URL = "https://alerts.example/ragassay"
_READ = documented(404)
_BODY = documented(400, 404, 408, 409, 413, 415)
Url = Annotated[str, Field(min_length=1, max_length=LONGEST_URL, description="where notices are sent, by POST")]
Kinds = Annotated[tuple[NoticeKind, ...], Field(min_length=1, max_length=20, description="the kinds that are sent")]
WebhookId = Annotated[
    str,
    Path(description="What POST /v1/webhooks gave.", max_length=100, examples=["wh_b1946ac92492d2347c6235b4d2611184"]),
]


def _iso(text: object) -> datetime:
    """Seconds since 1970 are no time here, though pydantic takes them for one."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        raise ValueError("is no time such as 2026-01-31T14:05:00Z") from None


class NewWebhook(FrozenModel):
    """A receiver, and what it is told."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"example": {"url": _URL, "kinds": ["gate_missed", "regression"]}}
    )

    url: Url
    kinds: Annotated[Kinds | None, Field(description="default: all alerts, and no end of a job")] = None
    format: Annotated[
        WebhookFormat, Field(description="'standard' is signed JSON; 'slack' is {\"text\": ...} without a signature")
    ] = "standard"


class WebhookChange(FrozenModel):
    """What is changed of a webhook; the rest stays."""

    model_config = ConfigDict(strict=True, json_schema_extra={"example": {"enabled": True}})

    url: Url | None = None
    kinds: Kinds | None = None
    enabled: Annotated[bool | None, Field(description="true: what waits goes on, and failures are forgotten")] = None


class _ReplayQuery(QueryParameters):
    delivery: Annotated[str | None, Field(max_length=64, description="this one, whatever became of it")] = None
    failed_since: Annotated[
        Annotated[AwareDatetime, BeforeValidator(_iso)] | None,
        Field(description="those that failed, of the ones made since then: 2026-01-31T14:05:00Z"),
    ] = None


class _AlertsQuery(Page):
    kind: Annotated[NoticeKind | None, Field(description="only notices of this kind")] = None


@router.get("/alerts", operation_id="listAlerts", summary="List the alerts")
def list_alerts(
    jobs: Service, query: Annotated[_AlertsQuery, Query()], asking: Annotated[Requester, Depends(requires("read"))]
) -> NoticePage:
    """What was told of the project's jobs and schedules, newest first, for 90 days.

    With ``kind``, a page may hold fewer than ``limit``, even none, and have a ``next``. ``job_finished`` and ``job_failed``
    are kept only where a webhook asks for them.
    """
    return jobs.alerts.page(asking.project, kind=query.kind, cursor=query.cursor, limit=query.limit)


async def _webhooks(jobs: Service, asking: Annotated[Requester, Depends(by_method)]) -> Webhooks:
    return jobs.alerts.webhooks(asking.project)


OwnWebhooks = Annotated[Webhooks, Depends(_webhooks)]


@router.post(
    "/webhooks",
    status_code=201,
    operation_id="addWebhook",
    summary="Add a webhook",
    responses={
        201: {"headers": {"Location": {"description": "Where the webhook is", "schema": {"type": "string"}}}},
        **documented(400, 408, 409, 413, 415),
    },
    openapi_extra=takes("NewWebhook"),
)
async def add(webhooks: OwnWebhooks, body: Body, response: Response) -> WebhookSecret:
    """Have a URL told of notices. The answer holds the secret that signs them, which is not shown again."""

    def work() -> WebhookSecret:
        asked = read_as(NewWebhook, check_json(body))
        return webhooks.add(asked.url, asked.kinds, asked.format)

    added = await to_thread.run_sync(work)
    response.headers["Location"] = f"/v1/webhooks/{added.webhook.id}"
    return added


@router.get(
    "/webhooks",
    operation_id="listWebhooks",
    summary="List the webhooks",
)
def list_webhooks(webhooks: OwnWebhooks) -> WebhookList:
    """The project's webhooks, the oldest first, with what became of the last try of each."""
    return WebhookList(webhooks=tuple(webhooks.all()))


@router.get("/webhooks/{webhook}", operation_id="getWebhook", summary="Look at a webhook", responses=_READ)
def get(webhooks: OwnWebhooks, webhook: WebhookId) -> Webhook:
    """Its kinds, whether it is enabled, and what became of the last try."""
    return webhooks.get(webhook)


@router.patch(
    "/webhooks/{webhook}",
    operation_id="changeWebhook",
    summary="Change a webhook",
    responses=_BODY,
    openapi_extra=takes("WebhookChange"),
)
async def change(webhooks: OwnWebhooks, webhook: WebhookId, body: Body) -> Webhook:
    """Change where it is, what it is told, or whether it is enabled."""

    def work() -> Webhook:
        asked = read_as(WebhookChange, check_json(body))
        return webhooks.change(webhook, url=asked.url, kinds=asked.kinds, enabled=asked.enabled)

    return await to_thread.run_sync(work)


@router.delete("/webhooks/{webhook}", operation_id="deleteWebhook", summary="Delete a webhook", responses=_READ)
def delete(webhooks: OwnWebhooks, webhook: WebhookId) -> Webhook:
    """Forget a webhook and all that waits for it; the answer is what it was."""
    return webhooks.remove(webhook)


@router.post("/webhooks/{webhook}/secret", operation_id="rotateSecret", summary="Replace the secret", responses=_READ)
def rotate(webhooks: OwnWebhooks, webhook: WebhookId) -> WebhookSecret:
    """A new secret, shown this once. For a day the one before signs beside it, so that a receiver can change over."""
    return webhooks.rotate(webhook)


@router.post("/webhooks/{webhook}/test", operation_id="testWebhook", summary="Try a webhook out", responses=_READ)
def test(webhooks: OwnWebhooks, webhook: WebhookId) -> Replayed:
    """Send it a notice of the kind ``test``, as others are sent; its deliveries say what became of it."""
    return webhooks.test(webhook)


@router.get(
    "/webhooks/{webhook}/deliveries", operation_id="listDeliveries", summary="List the deliveries", responses=_READ
)
def deliveries(webhooks: OwnWebhooks, webhook: WebhookId, query: Annotated[Page, Query()]) -> DeliveryPage:
    """What it was sent, or has to get, in the last 30 days, newest first."""
    return webhooks.deliveries(webhook, cursor=query.cursor, limit=query.limit)


@router.post("/webhooks/{webhook}/replay", operation_id="replayDeliveries", summary="Send again", responses=_READ)
def replay(webhooks: OwnWebhooks, webhook: WebhookId, query: Annotated[_ReplayQuery, Query()]) -> Replayed:
    """Send one delivery again, or all that failed since a time, under the ids that they had and with all their tries."""
    since: datetime | None = query.failed_since
    return webhooks.replay(webhook, delivery=query.delivery, since=since)
