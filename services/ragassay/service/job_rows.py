"""A job's rows in Redis: chunks of them as blobs, and the columns beside their results."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson
import zstandard

from ragassay.core.errors import Unavailable
from ragassay.core.models import Response, Result, Sample
from ragassay.service.job_state import gone
from ragassay.storage.columns import names
from ragassay.storage.protocol import ChunkId, RunRecord

if TYPE_CHECKING:
    from ragassay.service.redis import RedisStore

CHUNKS_AT_ONCE = 16  # that are sent to Redis
WRITTEN_WITHIN_S = 3600


def pack(rows: Sequence[Any]) -> bytes:
    """Rows as they are kept."""
    return zstandard.compress(orjson.dumps(rows))


def unpack(blob: bytes) -> list[Any]:
    """The rows that were kept."""
    rows: list[Any] = orjson.loads(zstandard.decompress(blob))
    return rows


def column_name(system: str, name: str) -> str:
    """Under which name of a job's keys one column of a system's rows is."""
    return f"column:{system}:{name}"


def column_names(record: RunRecord) -> list[str]:
    """Under which names all columns and the texts are."""
    return ["texts", *(column_name(system, name) for system in record.systems for name in names(record.metrics))]


def input_chunk(chunk: ChunkId, record: RunRecord) -> ChunkId:
    """The chunk under which a chunk's input is kept: systems without recorded responses share theirs."""
    source = record.systems[chunk.system]
    return ChunkId("", chunk.number) if source.called or source.built else chunk


def row_names(record: RunRecord) -> list[str]:
    """Under which names all of a job's rows are: what was asked, what was called, what came of it."""
    names = {f"{kind}:{chunk}": None for chunk in record.chunks() for kind in ("calls", "out")}
    inputs = {f"in:{input_chunk(chunk, record)}": None for chunk in record.chunks()}
    return [*inputs, *names, "contents", "done", "tries", *column_names(record)]


@contextmanager
def rows_ahead(
    store: RedisStore, record: RunRecord, samples: Sequence[Sample], responses: Mapping[str, Mapping[str, Response]]
) -> Iterator[dict[str, str]]:
    """Write each chunk's rows beside its key, for an hour, a few chunks at a time; {key: where they are}.

    They go where the block is refused. Raises Unavailable where they took too long.
    """
    from redis import exceptions

    inputs = {input_chunk(chunk, record): None for chunk in record.chunks()}
    names = {store.key(record.id, f"in:{chunk}"): store.key(record.id, f"new:{uuid.uuid4().hex}") for chunk in inputs}
    try:
        _write(store, record, samples, responses, dict(zip(inputs, names.values(), strict=True)))
        yield names
    except BaseException as error:
        # after a lost answer the transaction of the block may yet take place
        if not isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
            with suppress(exceptions.RedisError):
                store.redis.unlink(*names.values())
        raise


def _write(
    store: RedisStore,
    record: RunRecord,
    samples: Sequence[Sample],
    responses: Mapping[str, Mapping[str, Response]],
    names: Mapping[ChunkId, str],
) -> None:
    size, began = record.chunk_size, time.monotonic()
    pipe = store.redis.pipeline(transaction=False)
    for number, (chunk, name) in enumerate(names.items(), 1):
        rows = samples[chunk.number * size : (chunk.number + 1) * size]
        recorded = responses.get(chunk.system, {})
        given = [row.model_copy(update={"response": recorded.get(row.query_id)}) for row in rows]
        packed = pack([row.model_dump(mode="json", exclude_defaults=True) for row in given])
        pipe.set(name, packed, ex=WRITTEN_WITHIN_S)
        if number % CHUNKS_AT_ONCE == 0:
            pipe.execute()
    pipe.execute()
    if time.monotonic() - began > WRITTEN_WITHIN_S / 2:
        raise Unavailable("the rows of the job came too slowly", hint="submit it again")


def check_rows(store: RedisStore, record: RunRecord, chunks: Iterable[ChunkId], done: Collection[str]) -> None:
    """Raise NotFound where Redis has lost the input of these chunks, or results of those that are done."""
    names = {f"in:{input_chunk(chunk, record)}" for chunk in chunks} | {f"out:{chunk}" for chunk in done}
    if store.redis.exists(*(store.key(record.id, name) for name in names)) < len(names):
        raise gone("rows or results", record.id)


def read_rows(store: RedisStore, job: str, wanted: Mapping[ChunkId, Iterable[int]]) -> dict[ChunkId, dict[int, Result]]:
    """Some of the committed results of chunks, by their numbers in these; what is not there is left out."""
    blobs = store.redis.mget([store.key(job, f"out:{chunk}") for chunk in wanted]) if wanted else []
    kept = {chunk: unpack(blob) for chunk, blob in zip(wanted, blobs, strict=True) if blob is not None}
    return {chunk: {n: Result.model_validate(rows[n]) for n in wanted[chunk]} for chunk, rows in kept.items()}
