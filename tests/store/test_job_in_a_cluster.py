"""A job's keys share one slot: its scripts run on a Redis Cluster of three masters, wherever its jobs are."""

from contextlib import ExitStack

import pytest
from redis import Redis
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError

from polling import until
from raw_job import RawJob
from redis_server import RedisServer

SLOTS = 16384


def masters(opened, count=3):
    """Servers that know nothing of each other yet; each listens for the others on its port and 10,000 more."""
    servers = []
    while len(servers) < count:
        server = RedisServer("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", tcp=True)
        if server.port < 50_000:
            servers.append(opened.enter_context(server))
    return [server.port for server in servers]


@pytest.fixture(scope="module")
def cluster():
    with ExitStack() as opened:
        ports = masters(opened)
        nodes = [opened.enter_context(Redis(port=port)) for port in ports]
        for n, node in enumerate(nodes):
            first, end = n * SLOTS // len(nodes), (n + 1) * SLOTS // len(nodes)
            node.execute_command("CLUSTER ADDSLOTS", *range(first, end))
            node.execute_command("CLUSTER MEET", "127.0.0.1", ports[0])

        def formed():
            told = [node.execute_command("CLUSTER INFO") for node in nodes]
            return all(each["cluster_state"] == "ok" and each["cluster_known_nodes"] == "3" for each in told)

        until(formed, 30, "a cluster")
        connection = RedisCluster(host="127.0.0.1", port=ports[0])
        opened.callback(connection.close)
        yield connection


def live(job):
    """All scripts of a job's life; returns what they say."""
    said = [job.enqueue(), job.claim("dead"), job.reserve("default:0", "dead")]
    job.expire("default:0")
    said += [job.sweep(), job.claim("t"), job.renew("default:0", "t"), job.reserve("default:0", "t")]
    said += [job.settle("default:0", "t"), job.commit("default:0", "t"), job.pause(), job.resume(usd=9)]
    said += [job.claim("u"), job.give_back("default:1", "u"), job.claim("v"), job.wait("default:1", "v")]
    said += [job.turn("failed", "running"), job.revive("default:1")]
    said += [job.turn("failed", "running"), job.retry("default:1")]
    job.redis.hdel(job.key("meta"), "next_ms", "next_set_ms")
    said += [job.claim("w"), job.commit("default:1", "w"), job.claim_report("r"), job.renew("report", "r")]
    return [*said, job.turn("finished", "finalizing")]


def test_the_scripts_of_jobs_on_all_three_masters_run_as_on_one_redis(cluster):
    jobs = [RawJob(cluster, 2, id_=f"job-{n}") for n in range(9)]
    assert len({cluster.get_node_from_key(job.key("meta")).port for job in jobs}) == 3
    assert len({cluster.keyslot(job.key(name)) for job in jobs for name in ("meta", "calls:a:0")}) == len(jobs)
    with RedisServer() as alone, Redis.from_url(alone.url) as connection:
        expected = live(RawJob(connection, 2))
    assert expected[-4:] == ["last", 1, 1, "finalizing"]
    assert [live(job) for job in jobs] == [expected] * len(jobs)
    assert {job.books for job in jobs} == {(0.75, 0.0, 160.0, 0.0, 0.0, 1.0)}


def test_keys_of_two_jobs_are_not_for_one_script(cluster):
    one, other = (RawJob(cluster, 1, id_=f"job-{n}") for n in (20, 21))
    with pytest.raises((RedisClusterException, ResponseError), match=r"(?i)slot"):
        one._scripts["pause"](keys=[one.key("meta"), other.key("meta")], args=["why", 0])
