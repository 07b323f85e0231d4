"""A worker's places for messages, with a real broker that goes away while they are taken."""

import pytest
from kombu import Connection, Queue
from kombu.transport import redis as transport

from ragassay_workers.process import FreeingQoS
from redis_server import RedisServer


@pytest.fixture
def freeing(monkeypatch):
    monkeypatch.setattr(transport.Channel, "QoS", FreeingQoS)


def consumed(connection, count):
    """So many messages that are taken and not acknowledged, by a consumer that has places for so many."""
    taken = []
    producer = connection.Producer()
    for n in range(count):
        producer.publish({"n": n}, routing_key="places", declare=[Queue("places")], exchange="")
    consumer = connection.Consumer([Queue("places")], callbacks=[lambda _, message: taken.append(message)])
    consumer.qos(prefetch_count=count)
    consumer.consume()
    while len(taken) < count:
        connection.drain_events(timeout=5)
    return consumer, taken


def test_a_message_that_can_not_be_acknowledged_gives_its_place_back(freeing):
    with RedisServer(tcp=True) as broker, Connection(broker.url) as connection:
        consumer, taken = consumed(connection, 2)
        assert not consumer.channel.qos.can_consume()
        broker.kill()
        for message in taken:
            with pytest.raises(connection.connection_errors):
                message.ack()
        assert consumer.channel.qos.can_consume(), (
            "so the worker asks for the next, and sees that the connection is gone"
        )
