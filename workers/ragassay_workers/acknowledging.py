"""Frees a message's place in a worker even where the broker can't be told that it is done."""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual


class FreeingQoS(redis.QoS):  # type: ignore[misc]  # kombu has no types
    """A worker asks for no message while each of its places holds one that is not acknowledged.

    kombu keeps the place of a message whose acknowledgement failed. So a worker that ended its tasks while the broker
    was away had none left, never asked again, and so did not even notice that its connection was gone. The broker gives
    the message out again later; a wake-up that comes twice does no harm.
    """

    def ack(self, delivery_tag: Any) -> None:
        """Acknowledge a message; raises what the broker's connection raises, with the place free."""
        try:
            super().ack(delivery_tag)
        except redis.get_redis_error_classes().connection_errors:
            virtual.QoS.ack(self, delivery_tag)
            raise


def install() -> None:
    """Use it for all connections of this process that are made from now on."""
    redis.Channel.QoS = FreeingQoS
