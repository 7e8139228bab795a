"""What lies below /v1/responses: what a model server counts is handed on, and what it may have kept cannot be found."""

from pathlib import Path

import httpx2
import pytest

from inference.backends.openai import OpenAIConnector
from inference.contract.snapshot import Endpoint, Pool
from tests.support.gateway.scripted import a_snapshot, serve_pools
from tests.support.gateway.trusted import TRUSTED
from tests.support.servers.calls import StartServer
from tests.support.servers.standins import MODEL


@pytest.mark.parametrize(("kind", "status"), [("llamacpp", 200), ("vllm", 404)])
async def test_input_tokens_are_counted_by_a_server_that_does(
    kind: str, status: int, start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start_server(kind)
    pool = Pool("p", "v", "r", MODEL, "", (Endpoint("r0", url=server.url),), protocol="openai")
    async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch) as client:
        headers = {"Authorization": f"Bearer {client.api_key}"}
        async with httpx2.AsyncClient(base_url=client.base_url, headers=headers, verify=TRUSTED) as bare:
            counted = await bare.post("responses/input_tokens", json={"model": "m", "input": "seven"})
            assert counted.status_code == status, counted.text
            if status == 200:
                assert counted.json() == {"object": "response.input_tokens", "input_tokens": 5}
            assert (await bare.get("responses/input_tokens")).status_code == 405


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")],
)
async def test_no_response_is_kept_where_any_server_may_have_answered(
    method: str, path: str, start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start_server("vllm")
    pool = Pool("p", "v", "r", MODEL, "", (Endpoint("r0", url=server.url),), protocol="openai")
    async with serve_pools(OpenAIConnector, a_snapshot(pool), tmp_path, monkeypatch) as client:
        headers = {"Authorization": f"Bearer {client.api_key}"}
        async with httpx2.AsyncClient(base_url=client.base_url, headers=headers, verify=TRUSTED) as bare:
            answer = await bare.request(method, f"responses/resp_1{path}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "response_not_kept")
            assert "in `input`" in answer.json()["error"]["message"]
            del bare.headers["Authorization"]
            assert (await bare.get("responses/resp_1")).status_code == 401
