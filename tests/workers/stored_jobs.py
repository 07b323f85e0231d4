"""Jobs as the build of one day left them in Redis, for later builds to read: ``stored/DATE.json`` has a dump of each key.

    PYTHONPATH=tests python tests/workers/stored_jobs.py > tests/workers/stored/2026-11-23.json

Where documents or keys change, write another file and keep the older ones for as long as their jobs are to be read.
"""

import base64
import json
import sys
from pathlib import Path

from job_workers import PayingJudge, RecordingQueue, deliver, finish, submit
from offline_runs import FakeFactory
from ragassay.jobs import Jobs
from ragassay.store.redis import RedisStore
from redis_server import RedisServer

FOLDER = Path(__file__).parent / "stored"
ROWS = 12
IN_FOURS = {"judge": "a-model", "cache": False, "batch": 4, "concurrency": 4}


def made(store):
    """The ids of jobs in each state that another build may find: finished, begun, paused."""
    queue = RecordingQueue()
    jobs = Jobs(store, queue, FakeFactory(PayingJudge()))
    ids = {}
    ids["finished"] = submit(jobs, ROWS, name="finished", **IN_FOURS)
    finish(jobs, queue, ids["finished"])
    ids["paused"] = submit(jobs, ROWS, name="paused", budget={"tokens": 300}, **IN_FOURS)
    finish(jobs, queue, ids["paused"])
    ids["begun"] = submit(jobs, ROWS, name="begun", **IN_FOURS)
    deliver(jobs, queue)
    jobs.close()
    return ids


def dumped(store, ids):
    """The jobs and all keys, as text."""
    keys = {key.decode(): base64.b64encode(store.redis.dump(key)).decode() for key in sorted(store.redis.scan_iter())}
    return json.dumps({"jobs": ids, "keys": keys}, indent=1)


def restored(path, redis):
    """Put the keys of a file into Redis; the jobs' ids by state."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for key, dump in document["keys"].items():
        redis.restore(key, 0, base64.b64decode(dump))
    return document["jobs"]


def main():
    with RedisServer() as server:
        store = RedisStore(server.url)
        sys.stdout.write(dumped(store, made(store)) + "\n")


if __name__ == "__main__":
    main()
