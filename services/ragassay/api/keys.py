"""``/v1/keys``: make, list and revoke the keys of a project."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import ConfigDict, Field

from ragassay.api.bodies import json_body
from ragassay.api.dependencies import Page, jobs_of, scoped
from ragassay.api.problems import takes
from ragassay.api.security import Operator
from ragassay.core.errors import NotFound
from ragassay.core.models import FrozenModel
from ragassay.core.paging import BY_TIME, by_time, page_of
from ragassay.service.access import LONGEST_NAME, SCOPES, Access, ApiKey, MadeKey, Permission, Requester

router = APIRouter(prefix="/v1/keys", tags=["keys"])


def _access(request: Request, caller: Requester) -> Access:
    return Access(jobs_of(request, caller).store, request.app.state.settings)


Keys = Annotated[Access, scoped(_access, "admin")]


async def _key_id(key: Annotated[str, Path(description="The part of a key after ra_.")]) -> str:
    if not re.fullmatch("[0-9a-f]{12}", key):
        raise NotFound("that is not the id of a key", hint="list them: GET /v1/keys")  # it may be a whole key
    return key


KeyId = Annotated[str, Depends(_key_id)]


class NewKey(FrozenModel):
    """A key to be made for the project of the caller."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"example": {"name": "CI of search", "scopes": ["submit", "read"]}}
    )

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, description="what it is for")]
    scopes: Annotated[
        tuple[Permission, ...], Field(min_length=1, max_length=len(SCOPES), description="what it may do")
    ] = ("submit", "read")


class KeyList(FrozenModel):
    """A page of the project's keys, the oldest first."""

    keys: tuple[ApiKey, ...]
    next: str | None = None


@router.get("")
def list_keys(keys: Keys, query: Annotated[Page, Query()]) -> KeyList:
    """The project's keys without their secrets, the oldest first."""
    page, after = page_of(keys.listed(), _order, form=BY_TIME, **dict(query))
    return KeyList(keys=page, next=after)


def _order(key: ApiKey) -> str:
    return by_time(key.created_at, key.id)


@router.post("", status_code=201, openapi_extra=takes(NewKey))
def make_key(keys: Keys, caller: Operator, new: Annotated[NewKey, json_body(NewKey)]) -> MadeKey:
    """Make a key of the caller's project. It is shown only in this answer."""
    return keys.make(project=caller.project, **dict(new))


@router.delete("/{key}")
def revoke_key(keys: Keys, key: KeyId) -> ApiKey:
    """Remove a key: it is refused from the next request on."""
    return keys.revoke(key)
