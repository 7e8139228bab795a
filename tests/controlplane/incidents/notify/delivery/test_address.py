"""No page finds a way into the private network: by address, by name, by a name that changes, by redirect."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from controlplane.incidents.notify.delivery.core.outbound_address import (
    Allowed,
    BlockedError,
    allowed,
    check_addresses,
    is_public,
)
from controlplane.incidents.notify.delivery.send.http_client import Client
from tests.support.http_server import serving

NOTHING = Allowed()
LOCAL = allowed(["127.0.0.1"])

PRIVATE = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "192.0.0.1",
    "192.168.1.1", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.0.2.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a00:1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1",
    "2002:7f00:1::", "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]

NASTY = [
    "http://events.pagerduty.com/",  # in the clear
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "//example.com/",
    "example.com",
    "",
    "https://",
    "https:///path",
    "https://user:password@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://0/",
    "https://127.0.0.1.:443/",
    "https://１２７.0.0.1/",
    "https://127。0。0。1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[fe80::1%25eth0]/",
    "https://[64:ff9b::7f00:1]/",
    "https://169.254.169.254/latest/meta-data/",
    "https://localhost/",
    "https://localhost./",
    "https://LOCALHOST/",
    "https://foo.localhost/",
    "https://ip6-localhost/",
    "https://exa mple.com/",
    "https://example.com:99999/",
    "https://example.com:0x50/",
    "https://[::1/",
    "https://\x00example.com/",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_no_private_address_is_public_in_any_spelling(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("url", NASTY)
async def test_a_nasty_url_is_not_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[Any] = []

    async def connect(*args: Any, **kwargs: Any) -> None:
        connected.append(args)
        raise OSError("connected")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    async with Client(NOTHING, 5) as client:
        answer = await client.post(url, b"{}", {})
    assert answer.status is None
    assert answer.error
    assert not connected, answer


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    addresses = [ipaddress.ip_address(one) for one in ("8.8.8.8", "10.0.0.1")]
    with pytest.raises(BlockedError, match=r"10\.0\.0\.1 is not a public address"):
        check_addresses(addresses, "example.com", NOTHING)


@pytest.fixture
async def server() -> AsyncIterator[tuple[int, list[str]]]:
    """A port on loopback, and the paths that it was asked for."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path == "/redirect":
            raise web.HTTPFound("/inside")
        return web.Response(text="x" * 100_000)

    async with serving(web.route("*", "/{path:.*}", handle)) as url:
        yield int(url.rpartition(":")[2]), asked


async def test_a_redirect_is_not_followed(server: tuple[int, list[str]]) -> None:
    port, asked = server
    async with Client(LOCAL, 5) as client:
        answer = await client.post(f"http://127.0.0.1:{port}/redirect", b"{}", {})
    assert answer.status == 302
    assert asked == ["/redirect"]


async def test_a_name_that_changes_its_address_is_connected_where_it_was_checked(
    server: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the first answer is what is allowed, the second is not; only the first is ever used."""
    port, asked = server
    answers = iter(["127.0.0.1", "127.0.0.2"])
    looked_up: list[str] = []

    async def getaddrinfo(host: str, at: int, **_: Any) -> list[tuple[Any, ...]]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), at))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with Client(LOCAL, 5) as client:
        first = await client.post(f"http://rebind.example:{port}/", b"{}", {})
    async with Client(LOCAL, 5) as client:
        second = await client.post(f"http://rebind.example:{port}/", b"{}", {})
    assert first.status == 200
    assert len(first.error) <= 2_000
    assert (second.status, second.blocked) == (None, True)
    assert looked_up == ["rebind.example"] * 2
    assert asked == ["/"]


async def test_plain_http_goes_to_what_is_allowed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host: str, at: int, **_: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", at))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with Client(LOCAL, 5) as client:
        answer = await client.post("http://example.com/", b"{}", {})
    assert answer.blocked
    assert "plain http" in answer.error


async def test_errors_never_repeat_the_url() -> None:
    async with Client(LOCAL, 2) as client:
        for url in (
            "http://127.0.0.1:1/T0/secret",
            "https://127.0.0.1:1/T0/secret",
            "https://10.0.0.1/secret",
            "https:///secret",
        ):
            assert "secret" not in (await client.post(url, b"{}", {})).error


@pytest.mark.parametrize("entry", ["http://10.0.0.1", "10.0.0.1:80", "10.0.0.0/8/8", "", "a b", "*"])
def test_what_is_no_address_is_refused_with_its_value(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a network"):
        allowed([entry])


def test_names_and_networks_are_allowed() -> None:
    found = allowed(["10.0.0.0/8", "Hooks.Internal.", "::1"])
    check_addresses([ipaddress.ip_address("10.1.2.3")], "x", found)
    check_addresses([ipaddress.ip_address("192.168.0.1")], "hooks.internal", found)
    with pytest.raises(BlockedError):
        check_addresses([ipaddress.ip_address("192.168.0.1")], "other.internal", found)
