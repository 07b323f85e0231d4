"""``/v1/keys``: the keys of a project: make, list, rotate and revoke them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import ConfigDict, Field

from ragassay.access import LONGEST_NAME, MOST_DAYS, SCOPES, Access, MadeKey, Requester
from ragassay.api.bodies import check_json, read_as
from ragassay.api.jobs import Body, QueryParameters
from ragassay.api.problems import documented, takes
from ragassay.api.security import requires
from ragassay.errors import NotFound
from ragassay.jobs import Jobs
from ragassay.models import FrozenModel
from ragassay.store.keys import ApiKey, Permission

router = APIRouter(prefix="/v1/keys", tags=["keys"])
_DAY_S = 86_400
_ID = "0a1b2c3d4e5f"
_MADE = datetime(2026, 1, 31, 14, 5, tzinfo=UTC)
_LISTED = ApiKey(id=_ID, name="CI of search", project="search", scopes=("submit", "read"), created_at=_MADE)
_SHOWN = MadeKey(**dict(_LISTED), key=f"ra_{_ID}_" + "5f" * 24)

Operator = Annotated[Requester, Depends(requires("operate"))]


async def _access(request: Request, asking: Operator) -> Access:
    jobs: Jobs = request.app.state.jobs
    return Access(jobs.of(asking.project).store, request.app.state.settings)


Keys = Annotated[Access, Depends(_access)]


async def _key_id(key: Annotated[str, Path(description="The part of a key after ra_.", examples=[_ID])]) -> str:
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
    expires_in_days: Annotated[float | None, Field(gt=0, le=MOST_DAYS, description="default: it does not expire")] = (
        None
    )


class KeyList(FrozenModel):
    """All keys of the project, the oldest first."""

    model_config = ConfigDict(json_schema_extra={"example": {"keys": [_LISTED.model_dump(mode="json")]}})

    keys: tuple[ApiKey, ...]


class _RotateQuery(QueryParameters):
    overlap_s: Annotated[
        float, Field(ge=0, le=30 * _DAY_S, description="seconds for which the secret before is good as well")
    ] = _DAY_S


def _example(made: ApiKey) -> dict[str, Any]:
    return {"content": {"application/json": {"example": made.model_dump(mode="json")}}}


_MAKE: dict[str, Any] = {
    "responses": {201: _example(_SHOWN), **documented(400, 408, 409, 413, 415)},
    "openapi_extra": takes("NewKey"),
}


@router.get("", operation_id="listKeys", summary="List the keys")
def list_keys(keys: Keys) -> KeyList:
    """The project's keys without their secrets; for 90 days also those that are revoked or have expired."""
    return KeyList(keys=tuple(keys.listed()))


@router.post("", status_code=201, operation_id="makeKey", summary="Make a key", **_MAKE)
def make(keys: Keys, asking: Operator, body: Body) -> MadeKey:
    """Make a key of the caller's project. The answer is the only place where it ever stands."""
    return keys.make(project=asking.project, **dict(read_as(NewKey, check_json(body))))


@router.post(
    "/{key}/rotate",
    operation_id="rotateKey",
    summary="Give a key a new secret",
    responses={
        200: _example(_SHOWN.model_copy(update={"previous_until": _MADE + timedelta(days=1)})),
        **documented(404),
    },
)
def rotate(keys: Keys, key: KeyId, query: Annotated[_RotateQuery, Query()]) -> MadeKey:
    """The secret before stays good for ``overlap_s``, so that those who hold it can be told; 0 for one that has leaked."""
    return keys.rotate(key, overlap_s=query.overlap_s)


@router.delete(
    "/{key}",
    operation_id="revokeKey",
    summary="Revoke a key",
    responses={200: _example(_LISTED.model_copy(update={"revoked_at": _MADE})), **documented(404)},
)
def revoke(keys: Keys, key: KeyId) -> ApiKey:
    """From now on the key is good for nothing. Again for a revoked key changes nothing."""
    return keys.revoke(key)
