"""Which processes run, as Redis counts them."""


def test_a_process_that_fell_silent_is_not_counted_while_others_go_on(store):
    store.heartbeat("worker", "a:1", for_s=60)
    store.heartbeat("worker", "a:2", for_s=60)
    store.redis.zadd("ra:alive:worker", {"a:1": 1})  # counted until long ago
    assert store.alive("worker") == 1
    store.heartbeat("worker", "a:2", for_s=60)
    assert store.redis.zcard("ra:alive:worker") == 1
