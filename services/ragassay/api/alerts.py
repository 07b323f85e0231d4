"""``/v1/alerts``: what people were told."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from ragassay.access import Requester
from ragassay.api.jobs import QueryParameters, Service
from ragassay.api.problems import documented
from ragassay.api.security import requires
from ragassay.jobs import MOST_ROWS_A_PAGE
from ragassay.notices import LONGEST_ID, NoticeKind, NoticePage

router = APIRouter(prefix="/v1/alerts", tags=["alerts"])


class _AlertsQuery(QueryParameters):
    cursor: Annotated[str | None, Field(max_length=LONGEST_ID, description="'next' of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS_A_PAGE, description="most entries of a page")] = 50
    kind: Annotated[NoticeKind | None, Field(description="only notices of this kind")] = None


@router.get(
    "", operation_id="listAlerts", summary="List the alerts", responses=documented(401, 403, 421, 422, 500, 503)
)
def list_alerts(
    jobs: Service, query: Annotated[_AlertsQuery, Query()], asking: Annotated[Requester, Depends(requires("read"))]
) -> NoticePage:
    """What was told of the project's jobs and schedules, newest first, for 90 days.

    With ``kind``, a page may hold fewer than ``limit``, even none, and have a ``next``. ``job_finished`` and ``job_failed``
    are kept only where a webhook asks for them.
    """
    return jobs.alerts.page(asking.project, kind=query.kind, cursor=query.cursor, limit=query.limit)
