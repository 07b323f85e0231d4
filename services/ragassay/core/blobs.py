"""Named bytes, in a folder or in Redis. Runs and datasets are written once, on top of them."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ragassay.core.files import LineLog, locked, open_private, private_folder, to_lines, write_errors, write_whole

_COMPRESSED = b"\x28\xb5\x2f\xfd"  # how a Zstandard frame begins
STAGED = "new-"  # how the name of a folder begins that is not whole yet
STAGED_WITHIN_S = 86_400  # from one content of it to the next, a suspended machine included; then its writer is dead
_IN_PROCESS = threading.Lock()  # a lock of a file is held by a process, not by a thread


class Blobs(Protocol):
    """Bytes by name. A name may have a folder: ``results/default/00001.jsonl``. ``where``: what an error calls the place."""

    where: str

    def get(self, name: str) -> bytes | None:
        """The whole content; None if there is none."""

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """The contents of several of one folder."""

    def put(self, name: str, content: bytes) -> None:
        """Replace the content in one step. Raises DiskFull."""

    def append(self, name: str, rows: Iterable[Any]) -> None:
        """Add rows to a content of JSON Lines; a kill leaves whole ones. Raises DiskFull, Conflict while another process does."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""

    def read_at(self, name: str, start: int, length: int) -> bytes:
        """Part of a content that ``write_at`` wrote; shorter at its end, zeros where nothing was written."""

    def write_at(self, name: str, parts: Iterable[tuple[int, bytes]]) -> None:
        """Write parts of a content in their places, in this order. Raises DiskFull."""

    def publish(self, staged: str, folder: str, name: str, content: bytes) -> None:
        """Give a staged folder its name, and put the content by which others know that it is there; in this order."""

    def delete(self, folder: str, name: str = "") -> bool:
        """Delete a folder, and the content of that name before; False if there was no such content."""


class FolderBlobs:
    """Files of a folder, which only their owner may read. Hidden ones, such as a file manager leaves there, are none."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, str(folder)

    def get(self, name: str) -> bytes | None:
        """See ``Blobs``."""
        with suppress(FileNotFoundError):
            return (self.folder / name).read_bytes()
        return None

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """See ``Blobs``."""
        return [self.get(name) for name in names]

    def put(self, name: str, content: bytes) -> None:
        """See ``Blobs``. The first content of a staged folder deletes those that killed processes left."""
        if name.startswith(STAGED) and not (self.folder / name).parent.exists():
            for staged in self.folder.glob(STAGED + "[0-9a-f]" * 32):
                with suppress(FileNotFoundError):
                    if time.time() - staged.stat().st_mtime > STAGED_WITHIN_S:
                        shutil.rmtree(staged, ignore_errors=True)
        write_whole(self.folder / name, content, private=True)

    def append(self, name: str, rows: Iterable[Any]) -> None:
        """See ``Blobs``."""
        with _IN_PROCESS, locked(self.folder / f"{name}.lock", f"{name} of {self.folder.name}"):
            log = LineLog(self.folder / name)
            try:
                log.cut_torn_line()
                for row in rows:
                    log.append(row)
            finally:
                log.close()

    def names(self, folder: str) -> list[str]:
        """See ``Blobs``."""
        files = (path for path in (self.folder / folder).rglob("*") if path.is_file())
        return [path.relative_to(self.folder).as_posix() for path in files if not path.name.startswith(".")]

    def read_at(self, name: str, start: int, length: int) -> bytes:
        """See ``Blobs``."""
        with suppress(FileNotFoundError), (self.folder / name).open("rb") as file:
            return os.pread(file.fileno(), length, start)
        return b""

    def write_at(self, name: str, parts: Iterable[tuple[int, bytes]]) -> None:
        """See ``Blobs``."""
        with write_errors(self.folder / name):
            private_folder((self.folder / name).parent)
            file = open_private(self.folder / name, os.O_RDWR | os.O_CREAT)
            try:
                for start, content in parts:
                    os.pwrite(file, content, start)
            finally:
                os.close(file)

    def publish(self, staged: str, folder: str, name: str, content: bytes) -> None:
        """See ``Blobs``."""
        private_folder(self.folder / folder)
        for file in (self.folder / staged).iterdir():
            file.replace(self.folder / folder / file.name)
        (self.folder / staged).rmdir()
        self.put(name, content)

    def delete(self, folder: str, name: str = "") -> bool:
        """See ``Blobs``."""
        if there := (self.folder / name).is_file():
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / folder, ignore_errors=True)
        return there


class RedisBlobs:
    """Keys of a Redis that begin with ``prefix``; those of one folder are the fields of one hash, so they expire together.

    Contents that are ``put`` are compressed. ``kept_s``: after which those without a folder expire, and staged folders.
    """

    def __init__(self, redis: Any, prefix: str, *, where: str, kept_s: int) -> None:
        self._redis, self._prefix, self.where, self._kept_s = redis, prefix, where, kept_s

    def get(self, name: str) -> bytes | None:
        """See ``Blobs``."""
        folder, _, rest = name.partition("/")
        content = self._redis.hget(self._prefix + folder, rest) if rest else self._redis.get(self._prefix + name)
        return unpacked(content)

    def get_many(self, names: Sequence[str]) -> list[bytes | None]:
        """See ``Blobs``."""
        if not names:
            return []
        folder = names[0].partition("/")[0]
        fields = [name.removeprefix(f"{folder}/") for name in names]
        return [unpacked(content) for content in self._redis.hmget(self._prefix + folder, fields)]

    def put(self, name: str, content: bytes) -> None:
        """See ``Blobs``."""
        folder, _, rest = name.partition("/")
        pipe = self._redis.pipeline(transaction=True)
        if rest:
            pipe.hset(self._prefix + folder, rest, packed(content))
        else:
            pipe.set(self._prefix + folder, packed(content))
        if not rest or folder.startswith(STAGED):
            pipe.expire(self._prefix + folder, self._kept_s)
        pipe.execute()

    def append(self, name: str, rows: Iterable[Any]) -> None:
        """See ``Blobs``."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.append(self._prefix + name, b"".join(to_lines(rows)))
        pipe.expire(self._prefix + name, self._kept_s)
        pipe.execute()

    def names(self, folder: str) -> list[str]:
        """See ``Blobs``."""
        key, _, inside = folder.partition("/")
        if not inside:
            return [f"{folder}/{field.decode()}" for field in self._redis.hkeys(self._prefix + folder)]
        fields = dict(self._redis.hscan_iter(self._prefix + key, match=f"{inside}/*", count=1000))
        return [f"{key}/{field.decode()}" for field in fields]

    def read_at(self, name: str, start: int, length: int) -> bytes:
        """See ``Blobs``."""
        return bytes(self._redis.getrange(self._prefix + name, start, start + length - 1))

    def write_at(self, name: str, parts: Iterable[tuple[int, bytes]]) -> None:
        """See ``Blobs``."""
        for start, content in parts:
            self._redis.setrange(self._prefix + name, start, content)

    def publish(self, staged: str, folder: str, name: str, content: bytes) -> None:
        """See ``Blobs``; in one step for others."""
        known_in, _, field = name.partition("/")
        pipe = self._redis.pipeline(transaction=True)
        pipe.rename(self._prefix + staged, self._prefix + folder)
        pipe.persist(self._prefix + folder)
        pipe.hset(self._prefix + known_in, field, packed(content))
        pipe.execute()

    def delete(self, folder: str, name: str = "") -> bool:
        """See ``Blobs``; in one step for others."""
        known_in, _, field = name.partition("/")
        pipe = self._redis.pipeline(transaction=True)
        pipe.hdel(self._prefix + known_in, field)
        pipe.unlink(self._prefix + folder)
        return bool(pipe.execute()[0])


def packed(content: bytes) -> bytes:
    """A content, compressed. Zstandard is imported when it is needed: a short run in a folder does without."""
    import zstandard

    return zstandard.compress(content)


def unpacked(content: bytes | None) -> bytes | None:
    """A content that may be compressed."""
    if content is None or not content.startswith(_COMPRESSED):
        return content
    import zstandard

    return zstandard.decompress(content)
