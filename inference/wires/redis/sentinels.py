"""Finds a master through its sentinels, with redis-py."""

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from inference.wires.redis.url import RedisUrl


async def master(url: RedisUrl, timeout_s: float) -> tuple[str, int]:
    """The address that the sentinels give for the master, each asked for so long at most. Raises OSError."""
    options = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "ssl": url.tls,
        "username": url.sentinel_user or None,
        "password": url.sentinel_password or None,
    }
    try:
        async with Sentinel(url.hosts, sentinel_kwargs=options) as sentinel:  # type: ignore[no-untyped-call]
            host, port = await sentinel.discover_master(url.master)
    except RedisError as error:
        raise ConnectionError(str(error)) from error
    return str(host), int(port)
