"""The gateway over HTTP/2 with clients as users have them: the official one, httpx and curl."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hyperframe.frame import RstStreamFrame

from inference.core.snapshot import Snapshot
from tests.support.gateway.http2 import Peer, post
from tests.support.gateway.process import KEY, LARGE, SMALL, Gateway, StartGateway, unique
from tests.support.gateway.sockets import question
from tests.support.gateway.tls import issue, tls_gateway
from tests.support.start import Start
from tests.support.wait import eventually_async

CHAT = "/v1/chat/completions"


async def test_the_official_client_gets_the_same_answers(gateway: Gateway) -> None:
    messages = unique()
    async with gateway.client(http2=True) as client, gateway.client() as http1:
        asked = {"model": SMALL, "messages": messages, "max_tokens": 4, "temperature": 0}
        raw = await client.chat.completions.with_raw_response.create(**asked)
        assert raw.http_response.http_version == "HTTP/2"
        assert (raw.status_code, raw.headers["x-weir-cache"]) == (200, "miss")
        again = await http1.chat.completions.with_raw_response.create(**asked)
        assert again.headers["x-weir-cache"] == "hit"
        assert again.parse().choices[0].message == raw.parse().choices[0].message
        chunks = [chunk async for chunk in await client.chat.completions.create(**asked, stream=True)]
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert text == raw.parse().choices[0].message.content
        assert [model.id async for model in client.models.list()]
        long = await client.chat.completions.create(
            model=SMALL, messages=unique("internationalization " * 6_000), max_tokens=1
        )
        assert long.usage


async def test_many_streams_share_a_connection(gateway: Gateway) -> None:
    async with gateway.client(http2=True) as client:

        async def stream() -> int:
            answer = await client.chat.completions.create(model=SMALL, messages=unique(), max_tokens=20, stream=True)
            chunks = [chunk async for chunk in answer]
            assert chunks[-1].choices[0].finish_reason
            return len(chunks)

        before = gateway.metric("weir_gateway_connections")
        counts = asyncio.gather(*(stream() for _ in range(20)))
        await eventually_async(lambda: gateway.metric("weir_gateway_requests_in_flight") > 2 or counts.done())
        assert min(await counts) > 3
        assert gateway.metric("weir_gateway_connections") <= before + 1


async def test_a_reset_frees_the_model_and_nobody_elses(gateway: Gateway) -> None:
    peer = await Peer.connect(gateway.port)
    body = json.dumps({"model": LARGE, "messages": unique(), "max_tokens": 500, "stream": True}).encode()
    more = (("authorization", f"Bearer {KEY}"), ("content-length", str(len(body))))
    left = peer.ask(post(CHAT, *more), body)
    await peer.until(lambda: left in peer.bodies)
    peer.send(RstStreamFrame(left, 8))
    await eventually_async(lambda: gateway.metric("weir_gateway_replica_in_flight") == 0)
    small = question()
    stays = peer.ask(post(CHAT, more[0], ("content-length", str(len(small)))), small)
    assert (await peer.answer(stays))[0] == 200
    await peer.close()


def test_curl(gateway: Gateway, start: Start, snapshot: Snapshot, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None or "HTTP2" not in subprocess.run([curl, "-V"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("curl without HTTP/2")
    body = tmp_path / "body"
    out = ("-sS", "-w", "\n%{http_code} %{http_version}")

    def run(*arguments: str, key: str = KEY) -> tuple[str, str]:
        command = [curl, *out, "-H", f"authorization: Bearer {key}", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        text, _, numbers = ended.stdout.rpartition("\n")
        return numbers, text

    plain = f"http://127.0.0.1:{gateway.port}"
    body.write_bytes(question(stream=True))
    numbers, text = run("--http2-prior-knowledge", "-d", f"@{body}", plain + CHAT)
    assert numbers == "200 2"
    assert text.rstrip().endswith("data: [DONE]")
    assert run("--http2", "-d", f"@{body}", plain + CHAT)[0] == "200 1.1"  # h2c by Upgrade is not spoken
    body.write_bytes(bytes(3_000_000))
    numbers, text = run("--http2-prior-knowledge", "--data-binary", f"@{body}", plain + CHAT, key="no")
    assert (numbers, json.loads(text)["error"]["code"]) == ("401 2", "invalid_api_key")

    issued = issue(tmp_path)

    def ready(port: int) -> bool:
        try:
            return run("--cacert", str(issued.certificate), f"https://localhost:{port}/healthz")[0] == "200 2"
        except subprocess.CalledProcessError:
            return False  # it does not listen yet

    secure = tls_gateway(start, tmp_path, issued, snapshot, ready)
    assert (
        run("--cacert", str(issued.certificate), "--http1.1", f"https://localhost:{secure.port}/healthz")[0]
        == "200 1.1"
    )
    numbers, text = run(
        "--cacert", str(issued.certificate), "--data-binary", f"@{body}", f"https://localhost:{secure.port}{CHAT}"
    )
    assert (numbers, json.loads(text)["error"]["code"]) == ("400 2", "invalid_json")
    secure.end_at_once()


async def test_a_rolling_restart_lets_streams_finish(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, lame_duck_ms="300")
    async with gateway.client(http2=True) as client:
        answer = await client.chat.completions.create(model=LARGE, messages=unique(), max_tokens=60, stream=True)
        first = await anext(aiter(answer))
        gateway.process.terminate()
        chunks = [first, *[chunk async for chunk in answer]]
        assert chunks[-1].choices[0].finish_reason
        await eventually_async(lambda: gateway.process.exit_code == 0)
    assert "edge.connections_cut" not in gateway.log.read_text()
