"""Tokens of issuers beside keys: for which tenant and tier, with the keys that the issuer has now, and without asking it each time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from openai import AsyncOpenAI

from inference.app import Gateway
from inference.backends.port import Event
from inference.contract import lane
from inference.contract.snapshot import Key, Model, Route, Tenant, Tier, key_digest
from inference.observability.span_export import SpanExport
from inference.snapshot import issuers
from tests.support.gateway.issuer import AnIssuer
from tests.support.gateway.scripted import DONE, KEY, ScriptedBackend, a_snapshot, serve_pools
from tests.support.wait import eventually_async

HELLO: Any = [{"role": "user", "content": "Hello"}]
GATEWAYS: list[Gateway] = []
Opened = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """`opened(issuer, **fields)`: a client of a gateway that knows the issuer so; it sends a token of it."""
    made = Gateway.__init__

    def kept(self: Gateway, config: Any) -> None:
        made(
            self,
            config.model_copy(update={"user_hash_key": "k", "lane_url": "http://127.0.0.1:1", "lane_token": "l" * 32}),
        )
        GATEWAYS[:] = [self]

    monkeypatch.setattr(Gateway, "__init__", kept)

    @asynccontextmanager
    async def begin(issuer: AnIssuer, **fields: Any) -> AsyncIterator[AsyncOpenAI]:
        tiers = (Tier("standard"), Tier("batch", requests_per_minute=1), Tier("premium"))
        tenants = (
            Tenant("alice", "standard", (), (Key(key_digest(KEY)),), tiers=("batch", "gone")),
            Tenant("bob", "standard", ()),
        )
        plain = a_snapshot()
        models = (*plain.models, Model("other", (Route("p"),)))
        snapshot = msgspec.structs.replace(
            plain, models=models, tiers=tiers, tenants=tenants, issuers=(issuer.known_as(**fields),)
        )
        script = ScriptedBackend([Event("Hi"), DONE])
        async with serve_pools(lambda *_, **__: script, snapshot, tmp_path, monkeypatch) as client:
            yield client

    return begin


def with_token(client: AsyncOpenAI, token: str) -> AsyncOpenAI:
    return client.with_options(api_key=token)


async def ask(client: AsyncOpenAI, token: str) -> str:
    """`answered`, or the status and the message of the refusal."""
    try:
        await with_token(client, token).chat.completions.create(model="m", messages=HELLO)
    except openai.APIStatusError as error:
        return f"{error.status_code} {error.message}"
    return "answered"


async def ready(client: AsyncOpenAI, issuer: AnIssuer) -> None:
    async def here() -> bool:
        return await ask(client, issuer.token()) == "answered"

    await eventually_async(here)


async def test_a_token_is_taken_beside_keys_for_the_tenant_and_tier_that_it_names(opened: Opened) -> None:
    async with AnIssuer("EdDSA").serving() as issuer, opened(issuer, tier_claim="tier") as client:
        await ready(client, issuer)
        await client.chat.completions.create(model="m", messages=HELLO)
        assert await ask(client, issuer.token(tenant="bob")) == "answered"
        listed = await with_token(client, issuer.token()).models.list()
        assert [model.id for model in listed.data] == ["m", "other"]
        assert await ask(client, issuer.token(tier="batch")) == "answered"
        assert "429" in await ask(client, issuer.token(tier="batch")), "the tier's limits hold"
        for refused in ({"tier": "premium"}, {"tier": "gone"}, {"tenant": "bob", "tier": "batch"}):
            assert "no tier" in await ask(client, issuer.token(**refused))
        assert "no tenant" in await ask(client, issuer.token(tenant="carol"))
        for token in ("eyJ.eyJ.x", issuer.token(iss="https://evil.example"), AnIssuer("EdDSA").token()):
            assert (await ask(client, token)).startswith("401")


async def test_an_issuer_speaks_for_its_own_tenants_alone(opened: Opened) -> None:
    async with AnIssuer().serving() as issuer, opened(issuer, all_tenants=False, tenants=("alice",)) as client:
        await ready(client, issuer)
        assert "no tenant" in await ask(client, issuer.token(tenant="bob"))


async def test_lines_of_a_token_run_as_long_as_its_issuer_speaks_for_the_tenant(opened: Opened) -> None:
    def line(key: str) -> dict[str, str]:
        return {**lane.authorization("l" * 32), lane.KEY_HEADER: key}

    async with AnIssuer().serving() as issuer, opened(issuer, all_tenants=False, tenants=("alice",)) as client:

        async def run(key: str, headers: dict[str, str]) -> str:
            return await ask(client.with_options(default_headers=headers), key)

        mine, bobs = (lane.key_of_tokens("login", tenant, "standard") for tenant in ("alice", "bob"))
        assert await run("", line(mine)) == "answered", "its token may have ended long ago"
        for refused in (
            bobs,
            lane.key_of_tokens("other", "alice", "standard"),
            lane.key_of_tokens("login", "alice", "premium"),
        ):
            assert (await run("", line(refused))).startswith("401")
        assert (await run(mine, {lane.KEY_HEADER: mine})).startswith("401"), "no client speaks so"


async def test_users_are_kept_as_hashes_alone(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Any] = []
    monkeypatch.setattr(SpanExport, "submit", lambda _, item: traces.append(item))
    async with AnIssuer().serving() as issuer, opened(issuer, user_claim="sub") as client:
        await ready(client, issuer)
        assert await ask(client, issuer.token(sub="rita")) == await ask(client, issuer.token(sub="sven")) == "answered"
        await client.chat.completions.create(model="m", messages=HELLO)
        users = [trace.user for trace in traces if getattr(trace, "http_status", 0) == 200]
        assert len(set(users)) == 3 and users[-1] == "" and all(len(user) == 32 for user in users[:-1])
        assert not any("rita" in repr(trace) for trace in traces)


async def test_a_token_is_verified_once_and_refused_when_it_ends(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AnIssuer().serving() as issuer, opened(issuer) as client:
        await ready(client, issuer)
        token = issuer.token(exp=2_000_000_000)
        assert await ask(client, token) == "answered"
        monkeypatch.setattr("inference.snapshot.issuers.web_tokens.verify", None)
        assert await ask(client, token) == "answered"
        monkeypatch.setattr("inference.snapshot.issuers.time.time_ns", lambda: 2_000_000_031 * 10**9)
        assert "expired" in await ask(client, token)


async def test_a_new_key_is_fetched_once_and_no_sooner_for_tokens_of_strangers(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AnIssuer().serving() as issuer, opened(issuer) as client:
        await ready(client, issuer)
        for number in range(5):
            assert "no key of its issuer" in await ask(client, issuer.token(headers={"kid": f"made-up-{number}"}))
        assert issuer.fetched == 1, "it was fetched a moment ago"
        monkeypatch.setattr(issuers, "SOONER_S", 0.0)
        old, issuer.private, issuer.names = issuer.token(), AnIssuer().private, {"ES256": "new"}
        assert (await ask(client, issuer.token())).startswith("503"), "the client comes again in a moment"
        await ready(client, issuer)
        assert issuer.fetched == 2
        assert (await ask(client, old)).startswith(("401", "503")), (
            "what was verified with the key that is gone is not taken either"
        )


async def test_keys_are_used_for_a_while_when_the_issuer_is_away_and_that_is_said(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AnIssuer().serving() as issuer, opened(issuer) as client:
        await ready(client, issuer)
        token = issuer.token()
        assert await ask(client, token) == "answered"
        known = GATEWAYS[0].issuers.sets["https://login.example.com"]
        root = str(client.base_url).removesuffix("/v1/")

        async def said(text: str) -> bool:
            return text in (await client._client.get(f"{root}/readyz")).json()["issuers"]["login"]

        assert await said("up")
        issuer.down = True
        monkeypatch.setattr(issuers, "SOONER_S", 0.0)
        known.want()
        await eventually_async(lambda: said("stale: status 503"))
        assert await ask(client, token) == "answered" == await ask(client, issuer.token(sub="sven"))
        monkeypatch.setattr(issuers, "STALE_S", 0.0)
        for late in (token, issuer.token(sub="tom")):
            assert (await ask(client, late)).startswith("503")
        assert await said("down: status 503")
        page = (await client._client.get(f"{root}/metrics")).text
        assert 'weir_gateway_issuer_up{issuer="login"} 0.0' in page and "weir_gateway_issuer_keys_age_seconds" in page


async def test_before_the_first_keys_a_token_waits_outside_and_a_key_does_not(opened: Opened) -> None:
    async with AnIssuer().serving() as issuer:
        issuer.down = True
        async with opened(issuer) as client:
            assert "not here yet" in await ask(client, issuer.token())
            await client.chat.completions.create(model="m", messages=HELLO)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"jwks_url": "http://login.example.com/keys"}, "use https"),
        ({"jwks_url": "https://169.254.169.254/latest"}, "link-local"),
        ({"jwks_url": "https://u:p@login.example.com/"}, "user or password"),
        ({"jwks_url": "file:///etc/passwd"}, "http"),
        ({"audience": ""}, "audience is empty"),
        ({"algorithms": ()}, "algorithms is empty"),
        ({"algorithms": ("HS256",)}, "HS256"),  # a secret one
    ],
)
async def test_an_issuer_that_cannot_be_trusted_is_left_out_and_named(
    opened: Opened, fields: dict[str, Any], why: str
) -> None:
    async with AnIssuer().serving() as issuer, opened(issuer, **fields) as client:
        await client.chat.completions.create(model="m", messages=HELLO)
        (fault,) = GATEWAYS[0].faults()
        assert fault.kind == "issuer" and why in fault.reason
        assert (await ask(client, issuer.token())).startswith("401") and not issuer.fetched
