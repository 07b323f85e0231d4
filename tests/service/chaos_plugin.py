"""A plug-in of the processes under ``make chaos``: one dies, or drops what it settles, where a file in CHAOS_FOLDER asks for it.

A file is named for a step, ``settle after``; the first worker's child that comes there takes the file away. What the file
holds is who is killed: the ``child``, or its ``parent``.
"""

import os
import signal
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from ragassay.service.redis import RedisStore

FOLDER = Path(os.environ["CHAOS_FOLDER"])
IN_THE_CALL_S = 0.05  # after it is reserved, a call is on its way
run, count_finalize = RedisStore.run, RedisStore.count_finalize


@cache
def of_a_worker(process):
    parent = psutil.Process(process).parent()
    return parent is not None and "celery" in parent.cmdline()


def taken(step):
    """What the file of a step holds, for one process alone; None where there is none."""
    with suppress(FileNotFoundError):
        held = (FOLDER / step).read_text()
        if of_a_worker(os.getpid()):
            (FOLDER / step).unlink()
            return held
    return None


def kill(whom):
    if whom:
        os.kill(os.getppid() if whom == "parent" else os.getpid(), signal.SIGKILL)


def reach(step):
    kill(taken(step))


def run_and_die(self, script, keys, arguments, *pipe):
    step = "finalize" if script == "transition" and arguments[0] == "finished" else script
    if step == "settle" and arguments[4] and taken("settle dropped"):  # a reply's; one of a failed try does no harm
        return 0
    reach(f"{step} before")
    answer = run(self, script, keys, arguments, *pipe)
    reach(f"{step} after")
    if step == "reserve" and answer == [b"granted"] and (whom := taken("call")):
        threading.Timer(IN_THE_CALL_S, kill, [whom]).start()
    return answer


def count_and_die(self, job, by=1):
    begun = count_finalize(self, job, by)
    if by == 1:
        reach("finalize begun")
    return begun


RedisStore.run, RedisStore.count_finalize = run_and_die, count_and_die
