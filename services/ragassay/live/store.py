"""Requests of live traffic in Redis, from their first span to their window. A state is changed by Lua scripts only.

The keys of a project begin with ``ra:p:{PROJECT}:live:``. Of the project: ``waiting`` (trace ids by when to look at them),
``streams`` (name -> stream), ``batches`` and ``open`` (rows that wait for a job, and those that have one), ``number`` (of the
last batch), ``to_look_at`` (hours with new rows). Of a trace: ``spans:<trace>``, ``request:<trace>``. Of a stream:
``recent:<stream>`` (its newest traces), ``hours:<stream>``, ``spent:<stream>:<day>`` (the account of a day),
``looks:<stream>:<window>``. Of an hour of it: ``counts:<stream>:<hour>`` (requests by state, ``sampled`` rows),
``window:<stream>:<hour>`` (job -> figures of its rows), ``pending:<stream> <hour>`` and
``batch:<stream> <hour> <n>`` (trace -> row), ``bytes:<stream> <hour>`` (of the pending rows). ``ra:live`` has the projects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import orjson
from pydantic import ValidationError

from ragassay.core.blobs import packed, unpacked
from ragassay.core.errors import Conflict, NotFound, Unavailable, class_and_reason
from ragassay.core.jobs import DEFAULT_PROJECT
from ragassay.core.models import Sample
from ragassay.core.paging import page_of
from ragassay.core.settings import Settings
from ragassay.datasets.traces import TraceSpan
from ragassay.live.decide import Decision, has_root
from ragassay.live.models import (
    TRACE,
    Cause,
    Counts,
    LiveRequest,
    RequestPage,
    RequestStatus,
    StoredStream,
    hour_of,
    hours_in,
)
from ragassay.live.otlp import Received, restored, stored
from ragassay.service.projects import clock_time, project_key
from ragassay.service.redis import RedisStore

PROJECTS = "ra:live"
MAX_WAITING, MAX_STREAMS = 20_000, 100  # of a project
MAX_SPANS, MAX_BYTES = 1000, 4_000_000  # of a request, unpacked
MAX_REASON, MAX_NAME = 500, 200  # characters
MAX_RECENT = 100_000  # requests of a stream that are found by their trace id
MAX_LOOKED_AT = 1000  # requests, for a page of those in one state
BATCH_S = 60.0  # from the first row of a batch to its job
GRACE_S = 5.0  # from the root to the look at a request: other processes of it export their spans every 5 s
RETRY_AFTER_S = 10.0
MAX_BATCH, MAX_BATCH_BYTES = 500, 16_000_000  # rows that make a job before its time, unpacked
DAY_S = 86_400

Figures: TypeAlias = dict[str, Any]
"""The columns of a job's rows, as ``windows.figures_of`` makes them."""


class Batch(NamedTuple):
    """Rows of one hour of a stream that one job evaluates."""

    stream: str
    hour: str
    number: int

    @classmethod
    def of(cls, member: bytes) -> Batch:
        """The batch that Redis names so."""
        stream, hour, number = member.decode().split(" ")
        return cls(stream, hour, int(number))

    def __str__(self) -> str:
        return " ".join(map(str, self))


class ChosenRow(NamedTuple):
    """A row that is to be evaluated, and why it was chosen."""

    cause: Cause
    sample: Sample


class DueRequest(NamedTuple):
    """A request that is complete: in which window it is counted, and its spans as they are stored."""

    stream: str
    hour: str
    stored: list[bytes]

    def spans(self) -> list[TraceSpan]:
        """Its spans."""
        return [restored(unpacked(each) or b"") for each in self.stored]


class Appended(NamedTuple):
    """Spans of a call that were not kept: ``late`` ones, and ``refused`` ones beyond the limits of a trace."""

    late: int
    refused: int


class LiveStore:
    """The live traffic of one project. Every method may be called by many processes at once."""

    def __init__(self, store: RedisStore, settings: Settings) -> None:
        self.store, self.redis = store, store.redis
        self.project = store.project or DEFAULT_PROJECT
        self._prefix = project_key(self.project, "live:")
        self._kept_s = settings.keep_live_days * DAY_S
        self._silence_ms = int(settings.live_silence_s * 1000)

    def key(self, *name: str) -> str:
        """The Redis key of something of the project's live traffic."""
        return self._prefix + ":".join(name)

    # --- spans ------------------------------------------------------------------------------------------------

    def append(self, received: Sequence[Received]) -> Appended:
        """Keep spans with their requests. Raises Unavailable, and keeps none, while too many requests wait."""
        now, by_trace = int(self.store.now_ms()), dict[str, list[Received]]()
        for one in received:
            by_trace.setdefault(one.span.trace, []).append(one)
        pipe = self.redis.pipeline(transaction=False)
        for trace in by_trace:
            pipe.exists(self.key("request", trace))
        pipe.zcard(self.key("waiting"))
        *known, waiting = pipe.execute()
        new = len(by_trace) - sum(known)
        if new and waiting + new > MAX_WAITING:
            why, hint = f"{MAX_WAITING:,} requests wait to be looked at", "send the spans again later"
            raise Unavailable(why, hint=hint, retry_after=RETRY_AFTER_S)
        limits = [MAX_SPANS, MAX_BYTES, MAX_STREAMS, MAX_RECENT, self._kept_s, int(GRACE_S * 1000), self._silence_ms]
        pipe = self.redis.pipeline(transaction=True)
        for trace, ones in by_trace.items():
            root = next((one for one in ones if one.span.parent is None), ones[0])
            about = [trace, root.stream, int(has_root([one.span for one in ones]))]
            spans = (part for one in ones for content in [stored(one.span)] for part in (packed(content), len(content)))
            arguments = [self._prefix, now, hour_of(now), *limits, *about, *spans]
            self.store.run("live_append", [self.key("waiting"), self.key("streams")], arguments, pipe)
        pipe.sadd(PROJECTS, self.project)
        *outcomes, _ = pipe.execute()
        return Appended(sum(late for late, _ in outcomes), sum(refused for _, refused in outcomes))

    def due(self, limit: int) -> Iterator[tuple[str, DueRequest]]:
        """Requests that are complete by trace id, the longest first; each is read when it is asked for."""
        now = self.store.now_ms()
        for name in self.redis.zrangebyscore(self.key("waiting"), "-inf", now, start=0, num=limit):
            trace = name.decode()
            pipe = self.redis.pipeline(transaction=False)
            pipe.get(self.key("request", trace))
            pipe.lrange(self.key("spans", trace), 0, -1)
            request, spans = pipe.execute()
            about = orjson.loads(request or b"{}")
            yield trace, DueRequest(about.get("stream", ""), about.get("hour", hour_of(now)), spans)

    def settle(self, trace: str, decision: Decision, spans: int) -> bool:
        """Write down what became of a request with so many spans; True if as many rows wait as a job may have."""
        status, about, row = encoded(decision)
        arguments = [self._prefix, trace, status, about, packed(row) if row else b"", spans]
        arguments += [int(BATCH_S * 1000), MAX_BATCH, len(row), MAX_BATCH_BYTES]
        return bool(self.store.run("live_settle", [self.key("waiting"), self.key("batches")], arguments) == 2)

    # --- batches ----------------------------------------------------------------------------------------------

    def close_batches(self) -> None:
        """Close the batches that have waited long enough, or are large enough."""
        keys = [self.key(name) for name in ("batches", "open", "number")]
        for member in self.redis.zrangebyscore(self.key("batches"), "-inf", self.store.now_ms()):
            self.store.run("live_batch", keys, [self._prefix, member])

    def open_batches(self) -> list[Batch]:
        """The closed batches whose job has not been harvested, the oldest first."""
        return [Batch.of(member) for member in self.redis.zrange(self.key("open"), 0, -1)]

    def rows(self, batch: Batch) -> dict[str, ChosenRow]:
        """The rows of a batch by trace id, in the same order each time."""
        raw = self.redis.hgetall(self.key("batch", str(batch)))
        rows = {trace.decode(): orjson.loads(unpacked(row) or b"") for trace, row in sorted(raw.items())}
        return {trace: ChosenRow(cause, Sample.model_validate(sample)) for trace, (cause, sample) in rows.items()}

    def harvest(
        self, batch: Batch, job: str, figures: Figures, states: Mapping[str, tuple[RequestStatus, str]]
    ) -> bool:
        """Keep the figures of a batch and the states of its requests; False if that was done before."""
        window, counts = (self.key(name, batch.stream, batch.hour) for name in ("window", "counts"))
        about = [part for trace, (status, reason) in states.items() for part in (trace, status, short(reason))]
        content, sampled = packed(orjson.dumps(figures)), sum(figures["sampled"])
        arguments = [self._prefix, str(batch), job, content, sampled, self._kept_s, *about]
        keys = [window, counts, self.key("open"), self.key("to_look_at")]
        return bool(self.store.run("live_harvest", keys, arguments))

    # --- the budget of a day ----------------------------------------------------------------------------------

    def today(self) -> str:
        """The day by the clock of Redis, UTC."""
        return hour_of(self.store.now_ms())[:10]

    def account(self, stream: str, day: str) -> str:
        """The Redis key of what was spent on the requests of a day; ``reserve.lua`` and the like change it."""
        return self.key("spent", stream, day)

    def spent_usd(self, stream: str, day: str) -> float:
        """What was spent on the requests of a day, with what calls in flight may take."""
        return sum(float(part or 0) for part in self.redis.hmget(self.account(stream, day), "spent_usd", "open_usd"))

    def close_day(self, stream: str, day: str, why: str) -> None:
        """Evaluate no further request of this day."""
        self.redis.hset(self.account(stream, day), "reached", why)
        self.redis.expire(self.account(stream, day), self._kept_s)

    def day_closed(self, stream: str, day: str) -> str | None:
        """Why no further request of the day is evaluated; None if they are."""
        why = self.redis.hget(self.account(stream, day), "reached")
        return None if why is None else str(why.decode())

    # --- streams and requests ---------------------------------------------------------------------------------

    def streams(self) -> dict[str, StoredStream]:
        """The streams that were seen or have a rule, by name."""
        raw = self.redis.hgetall(self.key("streams"))
        return {name.decode(): _stream(name.decode(), stored) for name, stored in sorted(raw.items())}

    def stream(self, name: str) -> StoredStream:
        """A stream; raises NotFound."""
        stored = self.redis.hget(self.key("streams"), name)
        if stored is None:
            raise NotFound(f"there is no stream {name[:100]!r}", hint="list them: GET /v1/live/streams")
        return _stream(name, stored)

    def put_stream(self, name: str, stream: StoredStream) -> None:
        """Keep a stream with its rule; requests that were not looked at yet go by it. Raises Conflict if there are too many."""
        streams = self.key("streams")
        if not self.redis.hexists(streams, name) and self.redis.hlen(streams) >= MAX_STREAMS:
            raise Conflict(f"there are {MAX_STREAMS} streams", hint="delete one: DELETE /v1/live/streams/NAME")
        self.redis.hset(streams, name, stream.model_dump_json(exclude_defaults=True))
        self.redis.sadd(PROJECTS, self.project)
        self.redis.hdel(self.account(name, self.today()), "reached")

    def delete_stream(self, name: str) -> None:
        """Forget a stream's rule; what was received stays for its time. Raises NotFound."""
        self.stream(name)
        self.redis.hdel(self.key("streams"), name)

    def request(self, trace: str) -> LiveRequest:
        """A request by its trace id; raises NotFound."""
        raw = self.redis.get(self.key("request", trace))
        if raw is None:
            raise NotFound(f"no request with the trace id {trace[:64]!r} is known")
        return _request(trace, raw)

    def requests(
        self, stream: str, *, limit: int, cursor: str | None = None, status: RequestStatus | None = None
    ) -> RequestPage:
        """Requests of a stream, the newest first; with a ``status``, those in it of the next thousand."""
        looked_at, after = page_of(
            self._recent(stream, "+inf" if cursor is None else cursor.partition("-")[0]),
            _place,
            cursor=cursor,
            limit=MAX_LOOKED_AT if status else limit,
            form=f"[0-9]{{15}}-{TRACE}",
            descending=True,
        )
        keys = [self.key("request", trace) for trace, _ in looked_at]
        raw = zip(looked_at, self.redis.mget(keys) if keys else (), strict=True)
        known = [(place, _request(place[0], content)) for place, content in raw if content is not None]
        chosen = [(place, request) for place, request in known if status in (None, request.status)]
        if len(chosen) > limit:
            after = _place(chosen[limit - 1][0])
        return RequestPage(requests=tuple(request for _, request in chosen[:limit]), next=after)

    def _recent(self, stream: str, until_ms: str) -> Iterator[tuple[str, float]]:
        """Trace ids of a stream and when their first spans came, the newest first."""
        for start in count(0, MAX_LOOKED_AT):
            page = {"start": start, "num": MAX_LOOKED_AT, "withscores": True}
            found = self.redis.zrevrangebyscore(self.key("recent", stream), until_ms, "-inf", **page)
            yield from ((trace.decode(), at) for trace, at in found)
            if len(found) < MAX_LOOKED_AT:
                return

    # --- windows ----------------------------------------------------------------------------------------------

    def hours(self, stream: str) -> list[str]:
        """The hours in which requests of the stream came, the newest first."""
        return [hour.decode() for hour in self.redis.zrevrange(self.key("hours", stream), 0, -1)]

    def counts(self, stream: str, window: str) -> Counts:
        """How many requests of a window are in each state."""
        counted = self._counted(stream, window)
        return Counts(**{state: counted[state] for state in Counts.model_fields if state in counted})

    def sampled(self, stream: str, window: str) -> int:
        """How many rows of a window were evaluated that the rate chose."""
        return self._counted(stream, window).get("sampled", 0)

    def _counted(self, stream: str, window: str) -> dict[str, int]:
        pipe = self.redis.pipeline(transaction=False)
        for hour in hours_in(window):
            pipe.hgetall(self.key("counts", stream, hour))
        total: dict[str, int] = {}
        for counted in pipe.execute():
            for name, number in counted.items():
                total[name.decode()] = total.get(name.decode(), 0) + int(number)
        return total

    def figures(self, stream: str, hours: Sequence[str]) -> dict[str, dict[str, Figures]]:
        """What jobs found of the requests of these hours, by hour and job."""
        pipe = self.redis.pipeline(transaction=False)
        for hour in hours:
            pipe.hgetall(self.key("window", stream, hour))
        raw = zip(hours, pipe.execute(), strict=True)
        return {
            hour: {job.decode(): orjson.loads(unpacked(one) or b"") for job, one in jobs.items()} for hour, jobs in raw
        }

    def to_look_at(self) -> list[tuple[str, float]]:
        """``STREAM HOUR`` of the hours with new rows, and when these came."""
        return [(each.decode(), at) for each, at in self.redis.zrange(self.key("to_look_at"), 0, -1, withscores=True)]

    def looked_at(self, member: str, at: float) -> None:
        """All rows that an hour had were looked at; it stays if further ones came since."""
        self.store.run("live_looked", [self.key("to_look_at")], [member, at])

    def looks(self, stream: str, window: str) -> tuple[int, int]:
        """How many rows of a window the last look for drift saw, and how many looks there were."""
        rows, _, number = (self.redis.get(self.key("looks", stream, window)) or b"0 0").decode().partition(" ")
        return int(rows), int(number)

    def note_look(self, pipe: Any, stream: str, window: str, rows: int, number: int) -> None:
        """Write a look down, in the transaction with what it found."""
        pipe.set(self.key("looks", stream, window), f"{rows} {number}", ex=self._kept_s)


def encoded(decision: Decision) -> tuple[RequestStatus, bytes, bytes]:
    """What Redis keeps of a decision: its status, its reason, and its row, if it has one; without it if JSON can't hold it."""
    row = b""
    if decision.sample is not None:
        try:
            row = orjson.dumps([decision.cause, decision.sample.model_dump(mode="json", exclude_defaults=True)])
        except (TypeError, ValueError, RecursionError) as error:  # half surrogate pairs and the like
            reason = f"its row can't be stored: {class_and_reason(error)}"
            decision = replace(decision, status="failed", reason=reason, sample=None)
    read_from = {name: short(spans, MAX_NAME) for name, spans in decision.read_from.items()}
    about = {"reason": short(decision.reason), "cause": decision.cause or "", "read_from": read_from}
    return decision.status, orjson.dumps(about), row


def _place(recent: tuple[str, float]) -> str:
    """The place of a request in the list of its stream."""
    trace, at = recent
    return f"{at:015.0f}-{trace}"


def short(text: str, limit: int = MAX_REASON) -> str:
    """The beginning of a text that spans may have written, as UTF-8 can hold it."""
    return text[:limit].encode("utf-8", "replace").decode()


def _stream(name: str, content: bytes) -> StoredStream:
    try:
        return StoredStream.model_validate_json(content)
    except ValidationError:
        hint = "another version of ragassay wrote it; put its rule again"
        raise Conflict(f"the record of stream {name} can't be read", hint=hint) from None


def _request(trace: str, content: bytes) -> LiveRequest:
    record = orjson.loads(content)
    read_from = record.get("read_from")
    return LiveRequest(
        trace=trace,
        stream=record["stream"],
        status=record["status"],
        reason=record.get("reason") or ("its root has ended" if record["root"] else "waiting for its root span"),
        hour=record["hour"],
        received_at=clock_time(record["at"]),
        cause=record.get("cause") or None,
        read_from=read_from if isinstance(read_from, dict) else {},  # an empty object is a list in Lua
        job=record.get("job"),
    )
