"""What a server is found to be, and why it may not fit."""

from pathlib import Path

import pytest
from aiohttp import web

from inference.core.backend_errors import FailedError, UnreachableError
from tests.support.http_server import serving
from tests.support.servers.calls import CALL, Connect, StartServer, chat, events_of
from tests.support.servers.standins import MODEL

FOUND = {
    "sglang": ("0.5.23", 4_096),
    "llamacpp": ("b8681", 2_048),
    "trtllm": ("1.3.0", 0),
    "dynamo": ("", 0),
}


@pytest.mark.parametrize("kind", sorted(FOUND))
async def test_each_server_is_recognised(start_server: StartServer, connect: Connect, kind: str) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    detected = await model.detect(5)
    assert (detected.kind, detected.models, detected.misfit) == (kind, (MODEL,), "")
    assert (detected.version, detected.context_length) == FOUND[kind]
    assert model.capabilities.parameters["top_p"] == "forwarded"
    assert model.dialect.name == kind


async def test_what_nobody_knows_is_called_as_openai_is(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("dynamo")
    type(server).owner, before = "somebody", type(server).owner
    try:
        detected = await connect(server.url).detect(5)
    finally:
        type(server).owner = before
    assert (detected.kind, detected.misfit) == ("other", "")


async def test_a_server_without_the_model_is_never_ready_and_says_why(
    start_server: StartServer, connect: Connect
) -> None:
    server = await start_server("sglang")
    with pytest.raises(FailedError, match=f"does not serve 'llama' but '{MODEL}': set the pool's model name"):
        await connect(server.url, model="llama").ready(5)
    server.fault = "no model"
    with pytest.raises(FailedError, match="lists no model yet"):
        await connect(server.url).ready(5)


async def test_a_url_where_no_api_is(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    with pytest.raises(FailedError, match="Check the URL"):
        await connect(server.url.removesuffix("v1") + "v2").detect(5)
    await server.stop()
    with pytest.raises(UnreachableError):
        await connect(server.url).ready(5)
    await server.start()


@pytest.mark.parametrize(("kind", "probe"), [("sglang", "/ready"), ("llamacpp", "/health"), ("dynamo", "/v1/models")])
async def test_probes_are_those_that_cost_nothing(
    start_server: StartServer, connect: Connect, kind: str, probe: str
) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    await model.detect(5)
    server.probed.clear()
    assert await model.ready(5)
    assert server.probed == [probe]
    fault, said = ("no model", "lists no model yet") if kind == "dynamo" else ("loading", "answered 503")
    server.fault = fault
    with pytest.raises(FailedError, match=said):
        await model.ready(5)


async def test_a_server_that_hangs_is_not_waited_for(start_server: StartServer, connect: Connect) -> None:
    server = await start_server("sglang")
    model = connect(server.url)
    await model.detect(5)
    server.fault = "hangs"
    with pytest.raises(TimeoutError):
        await model.ready(0.05)


async def test_a_credential_is_sent_and_a_missing_one_is_said(
    start_server: StartServer, connect: Connect, tmp_path: Path
) -> None:
    server = await start_server("sglang")
    model = connect(server.url, credential="hosted")
    with pytest.raises(FailedError, match="'hosted' is neither in"):
        await model.ready(5)
    (tmp_path / "hosted").write_text("secret-1\n")
    assert await model.ready(5)
    await events_of(await model.generate(chat(), CALL))
    assert server.headers[-1]["authorization"] == "Bearer secret-1"


@pytest.mark.parametrize(("kind", "counted"), [("sglang", True), ("llamacpp", True), ("trtllm", False)])
async def test_prompts_are_counted_where_the_server_can(
    start_server: StartServer, connect: Connect, kind: str, counted: bool
) -> None:
    server = await start_server(kind)
    model = connect(server.url)
    await model.detect(5)
    assert (await model.count(chat(), 5) is not None) == counted


@pytest.mark.parametrize("count", ["-5", "true", "5.5", "9" * 30, "null"])
async def test_a_count_that_nobody_can_believe_is_none(connect: Connect, count: str) -> None:
    async def said(_: web.Request) -> web.Response:
        return web.Response(text=f'{{"count":{count}}}', content_type="application/json")

    async with serving(web.post("/tokenize", said)) as url:
        assert await connect(f"{url}/v1", server="vllm").count(chat(), 5) is None
