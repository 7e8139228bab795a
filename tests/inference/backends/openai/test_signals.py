"""The page of a server's metrics, and who gets its secret."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.http_server import serving
from tests.support.servers.calls import Connect

PAGE = 'vllm:num_requests_waiting{engine="0"} 3.0\nvllm:num_requests_running{engine="0"} 8.0\n'


class Pages:
    """A server with a metrics page that keeps what each request for it carried as `Authorization`."""

    def __init__(self) -> None:
        self.url = ""
        self.carried: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.carried.append(request.headers.get("Authorization", ""))
        return web.Response(text=PAGE)


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    pages = Pages()
    async with serving(web.get("/metrics", pages.answer)) as pages.url:
        yield pages


async def test_the_secret_goes_to_the_server_and_to_no_other_page(
    pages: Pages, connect: Connect, tmp_path: Path
) -> None:
    (tmp_path / "hosted-api").write_text("s3cret")
    own = connect(f"{pages.url}/v1", server="vllm", credential="hosted-api")
    other = connect("http://10.0.0.7:8000/v1", metrics=f"{pages.url}/metrics", credential="hosted-api")
    for model in (own, other):
        signals = await model.signals(5)
        assert (signals.waiting, signals.running) == (3, 8)
    assert pages.carried == ["Bearer s3cret", ""]


async def test_a_hosted_api_has_no_page(pages: Pages, connect: Connect) -> None:
    signals = await connect(f"{pages.url}/v1", server="other").signals(5)
    assert (signals.waiting, pages.carried) == (None, [])
