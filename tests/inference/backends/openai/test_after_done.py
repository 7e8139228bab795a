"""What a server sends along with the end of a stream is handed on with it."""

from pathlib import Path

import httpx2
import pytest

from inference.backends.openai import OpenAIConnector
from inference.contract.snapshot import Endpoint, Pool
from tests.support.gateway.scripted import a_snapshot, serve_pools
from tests.support.gateway.trusted import TRUSTED
from tests.support.servers.saying import Server


@pytest.mark.parametrize(
    "after", [b": cost 0.2\n\n", b": cost 0.2\n\n: bye\n\n", b"event: bye\ndata: {}\n\n", b": no end"]
)
async def test_what_comes_along_after_done_is_handed_on(
    after: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server("Water falls.").serving() as server:
        server.after = after
        pool = Pool("p", "v", "r", "m", "", (Endpoint("r0", url=server.url),), protocol="openai")
        async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch) as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "What?"}], "stream": True}
            headers = {"Authorization": f"Bearer {client.api_key}"}
            async with httpx2.AsyncClient(base_url=client.base_url, headers=headers, verify=TRUSTED) as bare:
                answer = await bare.post("chat/completions", json=body)
    assert answer.content.endswith(b"data: [DONE]\n\n" + after), answer.text
