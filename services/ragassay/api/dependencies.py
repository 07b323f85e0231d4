"""What routes share: the use cases of the caller's project, pages of lists, and files as answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response, Security
from pydantic import BaseModel, ConfigDict, Field

from ragassay.api.security import authorized
from ragassay.core.formatting import split_names
from ragassay.core.jobs import JOB_ID
from ragassay.dashboard.site import file
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.files import BINARY, MEDIA_TYPES
from ragassay.service.access import Requester
from ragassay.service.job_state import no_job
from ragassay.service.jobs import MAX_ROWS_A_PAGE, Jobs
from ragassay.service.notifications import MAX_ID


def scoped(make: Callable[[Request, Requester], Any], scope: str) -> Any:
    """A dependency: what ``make`` gives for a caller whose key has the scope."""

    async def dependency(request: Request, caller: Annotated[Requester, Security(authorized)]) -> Any:
        return make(request, caller)

    return Security(dependency, scopes=[scope])


def jobs_of(request: Request, caller: Requester) -> Jobs:
    """The jobs of the caller's project."""
    jobs: Jobs = request.app.state.jobs
    return jobs.of(caller.project)


Reads = Annotated[Jobs, scoped(jobs_of, "read")]
Submits = Annotated[Jobs, scoped(jobs_of, "submit")]


async def _job_id(job: Annotated[str, Path(description="What POST /v1/jobs gave.")]) -> str:
    if not JOB_ID.fullmatch(job):
        raise no_job(job)
    return job


JobId = Annotated[str, Depends(_job_id)]


LOCATED: dict[str, Any] = {"headers": {"Location": {"description": "Where it is", "schema": {"type": "string"}}}}


class QueryParameters(BaseModel):
    """Query parameters; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid")


class Page(QueryParameters):
    """Which part of a list."""

    cursor: Annotated[str | None, Field(max_length=MAX_ID, description="'next' of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS_A_PAGE, description="most entries of a page")] = 50


class FileForm(QueryParameters):
    """In which format a document is, and which columns of it."""

    format: Annotated[str, Field(max_length=30, description="json, or the extension of a file that it becomes")] = (
        "json"
    )
    fields: Annotated[
        str | None, Field(max_length=2000, description="only these columns of the rows, with commas between them")
    ] = None

    def respond(self, exporters: Exporters[Any], document: Any, name: str) -> Response:
        """The document; as a file of that name if it is not JSON. Raises UnknownName, BadSettings, MissingExtra."""
        content = exporters.whole(document, self.format, split_names(self.fields or ""))
        if self.format == "json":
            return Response(content, media_type=MEDIA_TYPES["json"])
        return file(content, name, self.format.lower())


def answers(model: type[BaseModel], *formats: str) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of an answer that is a document, or a file of one of the formats."""
    content = {}
    for form in formats:
        text = {"type": "string", "format": "binary"} if form in BINARY else {"type": "string"}
        content[MEDIA_TYPES[form].partition(";")[0]] = {"schema": text}
    return {200: {"model": model, "content": content}}
