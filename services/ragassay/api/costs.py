"""``/v1/costs``: what accurate answers cost over the reports of jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import Field

from ragassay.analysis.costs import asked
from ragassay.api.jobs import QueryParameters, Service
from ragassay.api.security import requires
from ragassay.reporting.costs import EXPORTERS

router = APIRouter(prefix="/v1/costs", tags=["costs"], dependencies=[Depends(requires("read"))])
_FORMS = {"json": "application/json", "csv": "text/csv", "md": "text/markdown"}
_Name = Annotated[str, Field(max_length=200)]


class _CostsQuery(QueryParameters):
    since: Annotated[str | None, Field(max_length=40, description="only jobs from that day or time on")] = None
    until: Annotated[
        str | None, Field(max_length=40, description="only jobs until that time, or the end of that day")
    ] = None
    zone: Annotated[str, Field(max_length=60, description="time zone of days, such as Europe/Berlin")] = "UTC"
    system: Annotated[tuple[_Name, ...], Field(max_length=50, description="only this system; repeatable")] = ()
    dataset: Annotated[
        tuple[_Name, ...], Field(max_length=50, description="only jobs on this dataset; repeatable")
    ] = ()
    by: Annotated[
        str | None,
        Field(
            max_length=100,
            description="groups: of system, dataset, category, model, day, month and judge; default: dataset,system",
        ),
    ] = None
    format: Annotated[
        Literal["json", "csv", "md"] | None, Field(description="the form of the answer; default: what Accept prefers")
    ] = None


_COSTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/CostReport"}},
            **{kind: {"schema": {"type": "string"}} for kind in (_FORMS["csv"], _FORMS["md"])},
        }
    },
}


@router.get(
    "",
    operation_id="getCosts",
    summary="Read what accurate answers cost",
    response_class=Response,
    responses=_COSTS,
)
async def costs(
    jobs: Service,
    request: Request,
    query: Annotated[_CostsQuery, Query()],
    accept: Annotated[str, Header(description="Such as text/csv.")] = "*/*",
) -> Response:
    """The document that ``ragassay cost --json`` prints, over the newest 2,000 reports that are asked for."""
    form = query.format or _preferred(accept)

    def work() -> bytes:
        report = jobs.costs.report(asked(**query.model_dump(exclude={"format"})))
        written = EXPORTERS.get(form)(report)
        return written if isinstance(written, bytes) else b"".join(written)

    document = await to_thread.run_sync(work, limiter=request.app.state.analyses)
    return Response(document, media_type=_FORMS[form], headers={"Vary": "Accept"})


def _preferred(accept: str) -> str:
    """The form that an Accept header names first; JSON where it names none of ours."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((form for kind in kinds for form, ours in _FORMS.items() if kind == ours), "json")
