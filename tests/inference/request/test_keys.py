"""What a key may: the models that it names, until it ends; and what counts against its limits."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from openai import AsyncOpenAI

from inference.backends.port import Event
from inference.contract.snapshot import Key, Model, Price, Route, Snapshot, Tenant, key_digest
from inference.request.parse import ENDPOINTS
from tests.support.gateway.scripted import DONE, KEY, ScriptedBackend, a_snapshot, serve, serve_pools
from tests.support.gateway.trusted import TRUSTED

HELLO: Any = [{"role": "user", "content": "Hello"}]
ANSWER = [Event("Hi"), DONE]
Opened = Callable[..., Any]


@pytest.fixture
def keyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """`keyed(**fields)`: a client whose key has these fields, of a gateway with the models `m` and `other`."""

    @asynccontextmanager
    async def begin(prices: tuple[Price, ...] = (), **fields: Any) -> AsyncIterator[AsyncOpenAI]:
        plain = a_snapshot()
        pools = tuple(msgspec.structs.replace(pool, prices=prices) for pool in plain.pools)
        models = (*plain.models, Model("other", (Route("p"),)))
        tenants = (Tenant("alice", "standard", (), (Key(key_digest(KEY), **fields),)),)
        snapshot: Snapshot = msgspec.structs.replace(plain, models=models, tenants=tenants, pools=pools)
        script = ScriptedBackend(ANSWER)
        async with serve_pools(lambda *_, **__: script, snapshot, tmp_path, monkeypatch) as client:
            yield client

    return begin


async def test_a_key_uses_and_lists_its_own_models_alone(keyed: Opened) -> None:
    async with keyed(models=("m",)) as client:
        assert [model.id async for model in client.models.list()] == ["m"]
        await client.chat.completions.create(model="m", messages=HELLO)
        for forbidden in (
            client.models.retrieve("other"),
            client.chat.completions.create(model="other", messages=HELLO),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                await forbidden
            assert caught.value.code == "model_not_found", "as a model that is not there"
    async with keyed() as client:
        assert [model.id async for model in client.models.list()] == ["m", "other"]


async def test_a_key_ends(keyed: Opened) -> None:
    now_ms = time.time_ns() // 1_000_000
    async with keyed(expires_ms=now_ms - 1) as client:
        for refused in (client.models.list(), client.chat.completions.create(model="m", messages=HELLO)):
            with pytest.raises(openai.AuthenticationError, match="expired"):
                await refused
    async with keyed(expires_ms=now_ms + 3_600_000) as client:
        await client.chat.completions.create(model="m", messages=HELLO)


async def test_a_key_is_refused_once_its_budget_is_used_up(keyed: Opened) -> None:
    price = Price(1_000.0, 1_000.0)  # a dollar a token
    async with keyed(prices=(price,), usd_per_day=1.0) as client:
        answered = await client.chat.completions.with_raw_response.create(model="m", messages=HELLO)
        assert answered.headers["x-weir-budget-remaining-usd"] == "1.000000"
        with pytest.raises(
            openai.RateLimitError, match=r"budget of this API key is used up: 1\.00 USD a day"
        ) as caught:
            await client.chat.completions.create(model="m", messages=HELLO)
        assert (caught.value.code, caught.value.response.headers["x-should-retry"]) == ("insufficient_quota", "false")
        assert 0 < int(caught.value.response.headers["retry-after"]) <= 86_400


async def test_a_key_with_a_budget_uses_no_model_whose_cost_is_not_known(keyed: Opened) -> None:
    async with keyed(usd_per_month=1.0) as client:
        with pytest.raises(openai.PermissionDeniedError, match="not known") as caught:
            await client.chat.completions.create(model="m", messages=HELLO)
        assert caught.value.code == "price_unknown"


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({"Authorization": f"Bearer {KEY}"}, True),
        ({"x-api-key": KEY}, True),
        ({"Authorization": f"Bearer {KEY}", "x-api-key": "of another gateway"}, True),
        ({"Authorization": "Basic YTpi", "x-api-key": KEY}, True),  # of a proxy before this gateway
        ({"Authorization": "Bearer wrong", "x-api-key": KEY}, False),
        ({"x-api-key": "wrong"}, False),
        ({"x-api-key": ""}, False),
        ({"Authorization": KEY}, False),
        ({"Authorization": "Bearer"}, False),
        ({}, False),
    ],
)
async def test_a_key_comes_in_either_header_and_nobody_gets_in_without_one(
    keyed: Opened, headers: dict[str, str], known: bool
) -> None:
    body = {"model": "m", "messages": HELLO, "max_tokens": 5}
    async with keyed() as client, httpx2.AsyncClient(base_url=client.base_url, headers=headers, verify=TRUSTED) as bare:
        for path in ENDPOINTS:
            answer = await bare.post(f"{client.base_url.join(path)}", json=body)
            assert (answer.status_code != 401) is known, path
            assert (answer.json().get("type") == "error") is path.startswith("/v1/messages"), (
                "each client reads its own errors"
            )
        assert ((await bare.get("models")).status_code == 200) is known


async def test_wrong_requests_and_lists_of_models_count_against_limits(keyed: Opened) -> None:
    async with keyed(requests_per_minute=3) as client:
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="m", messages=[])
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="none", messages=HELLO)
        await client.models.list()
        for refused in (
            client.models.list(),
            client.chat.completions.create(model="m", messages=[]),
            client.chat.completions.create(model="m", messages=HELLO),
        ):
            with pytest.raises(openai.RateLimitError):
                await refused


@pytest.mark.parametrize(
    ("host", "addresses", "taken"),
    [
        ("images.example.com", ["93.184.216.34"], True),
        ("a.cdn.example.com", ["93.184.216.34", "2606:2800:220:1::1"], True),
        ("other.example.com", ["93.184.216.34"], False),
        ("kubernetes.default.svc", ["10.96.0.1"], False),
        ("127.0.0.1.nip.io", ["127.0.0.1"], False),
        ("images.example.com", ["10.0.0.1"], False),  # its name server says so
        ("images.example.com", ["93.184.216.34", "127.0.0.1"], False),
        ("images.example.com", ["64:ff9b::a00:1"], False),
        ("images.example.com", [], False),
    ],
)
async def test_images_are_where_the_model_s_owner_allows_and_on_the_internet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, addresses: list[str], taken: bool
) -> None:
    async def looked_up(name: str) -> list[str]:
        assert name == host
        return addresses

    monkeypatch.setattr("inference.request.images._addresses", looked_up)
    hosts = ("images.example.com", "*.cdn.example.com", "127.0.0.1.nip.io")
    script = ScriptedBackend(ANSWER)
    part = {"type": "image_url", "image_url": {"url": f"https://{host}/a.png"}}
    messages: Any = [{"role": "user", "content": [part]}]
    async with serve(script, tmp_path, monkeypatch, image_hosts=hosts) as client:
        if taken:
            await client.chat.completions.create(model="m", messages=messages)
        else:
            with pytest.raises(openai.BadRequestError) as caught:
                await client.chat.completions.create(model="m", messages=messages)
            assert caught.value.code == "image_host_not_allowed"
    assert bool(script.questions) is taken


async def test_images_elsewhere_are_refused_unless_the_owner_allows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ScriptedBackend(ANSWER)
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    async with serve(script, tmp_path, monkeypatch) as client:
        with pytest.raises(openai.BadRequestError, match="data:"):
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": [part]}])  # type: ignore[list-item,misc]
    assert not script.questions
