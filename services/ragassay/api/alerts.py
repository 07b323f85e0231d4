"""``/v1/alerts``: what people were told."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from ragassay.access import Requester
from ragassay.api.jobs import Page, Service
from ragassay.api.security import requires
from ragassay.notices import NoticeKind, NoticePage

router = APIRouter(prefix="/v1/alerts", tags=["alerts"])


class _AlertsQuery(Page):
    kind: Annotated[NoticeKind | None, Field(description="only notices of this kind")] = None


@router.get("", operation_id="listAlerts", summary="List the alerts")
def list_alerts(
    jobs: Service, query: Annotated[_AlertsQuery, Query()], asking: Annotated[Requester, Depends(requires("read"))]
) -> NoticePage:
    """What was told of the project's jobs and schedules, newest first, for 90 days.

    With ``kind``, a page may hold fewer than ``limit``, even none, and have a ``next``. ``job_finished`` and ``job_failed``
    are kept only where a webhook asks for them.
    """
    return jobs.alerts.page(asking.project, kind=query.kind, cursor=query.cursor, limit=query.limit)
