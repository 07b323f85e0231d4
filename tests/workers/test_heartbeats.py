"""Which processes run, as Redis counts them."""


def test_who_runs_is_counted_without_looking_at_other_keys(store):
    store.heartbeat("worker", "a:1", for_s=60)
    store.heartbeat("worker", "a:2", for_s=60)
    store.heartbeat("worker", "b:1", for_s=60)
    store.heartbeat("beat", "a:3", for_s=60)
    counts = [store.alive("worker"), store.alive("worker", "a"), store.alive("worker", "c"), store.alive("beat", "a")]
    assert counts == [3, 2, 0, 1]
    store.deregister("worker", "a:1")
    assert store.alive("worker") == 2
    assert store.redis.info("commandstats").get("cmdstat_scan") is None


def test_a_process_that_fell_silent_is_not_counted_while_others_go_on(store):
    store.heartbeat("worker", "a:1", for_s=60)
    store.heartbeat("worker", "a:2", for_s=60)
    store.redis.zadd("ra:alive:worker", {"a:1": 1})  # counted until long ago
    assert store.alive("worker") == 1
    store.heartbeat("worker", "a:2", for_s=60)
    assert store.redis.zcard("ra:alive:worker") == 1
