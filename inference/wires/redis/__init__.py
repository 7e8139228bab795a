"""Redis: a server, the master that sentinels name, or a cluster."""

from inference.wires.redis.client import RedisClient
from inference.wires.redis.connection import RedisConnection
from inference.wires.redis.pipe import Argument, RedisLostError, ReplyError
from inference.wires.redis.url import RedisUrl, RedisUrlError, parse

__all__ = [
    "Argument",
    "RedisClient",
    "RedisLostError",
    "RedisUrl",
    "RedisUrlError",
    "ReplyError",
    "open_redis",
    "parse",
]


def open_redis(url: str) -> RedisClient:
    """A client for `url`, which connects once it is started. Raises RedisUrlError."""
    given = parse(url)
    if given.kind != "cluster":
        return RedisConnection(given)
    from inference.wires.redis.cluster import RedisClusterClient  # redis-py, a sixth of what the gateway imports

    return RedisClusterClient(given)
