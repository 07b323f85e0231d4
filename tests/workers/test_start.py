"""How long a worker takes from its start until it works; ``-s`` prints it."""

import sys
import time

import psutil

from offline_runs import sample, source_of
from polling import until
from ragassay.core.eval_config import EvalConfig
from ragassay.core.settings import Settings
from ragassay.evaluation.inputs import recorded
from ragassay.service import wiring
from redis_server import redis_server
from service.running import environment


def test_a_worker_takes_its_first_chunk_within_three_seconds_of_processor_time(tmp_path):
    with redis_server() as url:
        set_up = {"state_url": url, "broker_url": url, "home": tmp_path}
        jobs = wiring.jobs_for(Settings(state_url=url, broker_url=url, home=tmp_path))
        rows = [sample(n) for n in range(10)]
        job, _ = jobs.submit(EvalConfig(), recorded(source_of(rows), rows))
        untraced = {k: v for k, v in environment(**set_up).items() if not k.startswith("COVERAGE")}
        command = [sys.executable, "-m", "ragassay.cli", "serve", "worker", "--workers", "2"]
        began = time.monotonic()
        with (tmp_path / "log").open("w") as log:
            worker = psutil.Popen(command, env=untraced, stdout=log, stderr=log)
        try:
            until(lambda: jobs.get(job.id).started_at, what="no worker took the job")
            wall_s = time.monotonic() - began
            used = [process.cpu_times() for process in (worker, *worker.children(recursive=True))]
            cpu_s = sum(one.user + one.system for one in used)
            print(f"first chunk after {wall_s:.1f} s, processor time {cpu_s:.1f} s")
            assert cpu_s < 3
        finally:
            for process in (worker, *worker.children(recursive=True)):
                process.kill()
            worker.wait()
