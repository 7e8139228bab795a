"""Names of servers that point at a cloud's metadata."""

import socket
from typing import Any

import pytest

from inference.backends.metrics_page import MetricsPages
from inference.backends.openai.link import HttpLink, Trust
from inference.contract.address import parse_url
from inference.core.backend_errors import UnreachableError
from inference.wires.resolver import Resolver
from tests.support.servers.metrics_page import MetricsPage

NAMES = {
    "moved.test": ["169.254.169.254"],
    "ipv6.test": ["fd00:ec2::254", "fe80::1"],
    "mapped.test": ["::ffff:169.254.169.254"],
    "both.test": ["169.254.169.254", "127.0.0.1"],
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names have these addresses."""

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in NAMES[host]
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("name", ["moved.test", "ipv6.test", "mapped.test"])
async def test_a_name_that_points_at_a_clouds_metadata_is_not_connected_to(name: str) -> None:
    link = HttpLink(f"http://{name}/v1", 5)
    with pytest.raises(UnreachableError, match=r"link-local address.*WEIR_BACKEND_LINK_LOCAL=true"):
        await link.get(parse_url(f"http://{name}/v1/models"), {}, Trust())
    link.close()


async def test_they_are_when_the_owner_allows_it() -> None:
    for name, addresses in NAMES.items():
        given = await Resolver(link_local=True)(name, 80)
        assert [address[0] for _, address in given] == addresses


async def test_a_names_other_addresses_are_used(page: MetricsPage) -> None:
    page.body = "here"
    link = HttpLink("http://both.test/v1", 5)
    assert await link.get(parse_url(page.url_of("both.test")), {}, Trust()) == (200, b"here")
    link.close()


async def test_metrics_pages_are_read_with_the_same_care(page: MetricsPage) -> None:
    page.body = "vllm:num_requests_waiting 3\n"
    pages = MetricsPages()
    assert (await pages.signals(page.url_of("both.test"), 5)).waiting == 3
    assert not (await pages.signals("http://moved.test/metrics", 5)).known
    pages.close()
