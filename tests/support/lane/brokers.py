"""Brokers of Kafka: librdkafka's own stand-in, which speaks the real protocol. No broker of the JVM is among them."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer


@contextmanager
def brokers(count: int = 3) -> Iterator[str]:
    """Their addresses, while the block lasts."""
    cluster = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": count, "log_level": 3})
    there = cluster.list_topics(timeout=30).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in there)
    del cluster  # they end with it
