"""Every client of Redis speaks TLS, and trusts the authorities of SSL_CERT_FILE alone."""

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.exceptions import RedisError

from controlplane.fleet.observe.probes import redis
from inference.wires.redis import open_redis
from tests.support.gateway.tls import Issued, issue
from tests.support.tls_front import tls_front

Use = Callable[[str], Awaitable[bool]]


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return issue(tmp_path)


@pytest.fixture
def url(redis_url: str, issued: Issued) -> Iterator[str]:
    plain = urlsplit(redis_url)
    assert plain.port
    with tls_front(plain.port, issued) as port:
        user, _, _ = plain.netloc.rpartition("@")
        yield f"rediss://{user}@localhost:{port}/0"


async def broker(url: str) -> bool:
    return await asyncio.to_thread(reach_broker, url)


def reach_broker(url: str) -> bool:
    use = "from controlplane.celery import app\nwith app.connection() as c: c.default_channel.client.ping()"
    env = {**os.environ, "WEIR_REDIS_URL": url, "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    ended = subprocess.run([sys.executable, "-c", use], env=env, capture_output=True, timeout=120, check=False)
    assert ended.returncode == 0 or b"CERTIFICATE_VERIFY_FAILED" in ended.stderr
    return ended.returncode == 0


async def layer(url: str) -> bool:
    try:
        await RedisPubSubChannelLayer(hosts=[url]).group_send("nobody", {"type": "nothing"})
    except RedisError as error:
        assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        return False
    return True


async def probe(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as session:
            return (await redis(url)(session)).state == "up"
    except RedisError as error:
        assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        return False


async def gateway(url: str) -> bool:
    client = open_redis(url)
    try:
        await client._connect()
    except ssl.SSLCertVerificationError:
        return False
    finally:
        await client.close()
    return True


@pytest.mark.parametrize("use", [broker, layer, probe, gateway])
async def test_redis_is_reached_over_tls_where_its_authority_is_trusted(
    use: Use, url: str, issued: Issued, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(issue(tmp_path, "stranger").certificate))
    assert not await use(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(issued.certificate))
    assert await use(url)
