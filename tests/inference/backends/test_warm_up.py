"""Warm-up requests before a replica gets those of users, with model servers that check what they are sent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from inference.backends import readiness
from inference.backends.credentials import Credentials
from inference.backends.fleet import Fleet, PoolState
from inference.backends.openai import OpenAIConnector
from inference.backends.replica import Replica
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot, WarmUp
from inference.core.routing.need import ANYTHING
from inference.core.routing.warming import Warming
from inference.observability.spans import OwnCall
from tests.support.gateway.scripted import take_down
from tests.support.servers.calls import StartServer
from tests.support.servers.standins import EMBEDDING, MODEL, ModelServer, SGLang
from tests.support.wait import eventually_async

Obey = Callable[..., PoolState]
TWO = WarmUp(2, "Say yes.", 4)


class TextOnly(SGLang):
    """A model without a chat template."""

    async def _infer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/chat/completions"):
            self.bodies.append(await request.json())
            return self.error(400, "this model has no chat template")
        return await super()._infer(request)


class EmbedsOnly(SGLang):
    async def _infer(self, request: web.Request) -> web.StreamResponse:
        return self.error(404, "Not Found")


class TakesNothing(SGLang):
    async def _infer(self, request: web.Request) -> web.StreamResponse:
        return self.error(400, "no such task")

    async def _embed(self, request: web.Request) -> web.Response:
        return self.error(400, "no embeddings")


@pytest.fixture
def recorded() -> list[OwnCall]:
    """The calls of which the gateway sends spans."""
    return []


@pytest.fixture
async def obey(tmp_path: Path, recorded: list[OwnCall]) -> AsyncIterator[Obey]:
    """`obey(server, …, warm_up=…)`: the pool of a snapshot with a replica for each of these servers, by the order of their start."""
    connectors = {"openai": OpenAIConnector(Credentials(tmp_path, {}))}
    fleet = Fleet(connectors, 0.02, 1.0, 60, record=recorded.append)

    def swap(*servers: ModelServer, warm_up: WarmUp = TWO) -> PoolState:
        endpoints = tuple(Endpoint(f"r{server.url.split('/')[2]}", url=server.url) for server in servers)
        pool = Pool("p", "v", "here", MODEL, "", endpoints, protocol="openai", warm_up=warm_up)
        return fleet.swap(Snapshot(1, (Model("m", (Route("p"),)),), (pool,), (), ()))["p"]

    yield swap
    await fleet.close()


def chosen(state: PoolState) -> set[Replica | None]:
    return {state.choose(ANYTHING, ()) for _ in range(4)}


async def warm(obey: Obey, server: ModelServer) -> Replica:
    """The only replica of a pool, after its warm-up."""
    state = obey(server)
    await eventually_async(lambda: state.warm_ups.warmed == 1)
    return state.replicas[0]


async def test_a_new_replica_gets_no_user_s_request_before_it_has_answered_its_own(
    obey: Obey, start_server: StartServer, recorded: list[OwnCall]
) -> None:
    old, new = await start_server(SGLang), await start_server(SGLang)
    first = await warm(obey, old)
    new.gate.clear()
    state = obey(old, new)
    second = state.replicas[1]
    assert chosen(state) == {first}, "also before its first probe"
    await eventually_async(lambda: new.running == 1)
    assert (chosen(state), second.in_flight, second.health.state) == ({first}, 0, "up")
    assert readiness.server(second)["warming"] == "0 of 2 warm-up requests answered"
    assert readiness.pool(state, with_servers=False) == {"ready": 2, "replicas": 2, "warming": 1}
    new.gate.set()
    await eventually_async(lambda: state.warm_ups.warmed == 2)
    assert chosen(state) == {first, second}
    assert "warming" not in readiness.server(second)
    assert (state.warm_ups.answered, state.warm_ups.failed, second.served) == (4, 0, 2)
    for body, headers in zip(new.bodies, new.headers, strict=True):
        assert (body["messages"], body["max_tokens"]) == ([{"role": "user", "content": "Say yes."}], 4)
        sent = {call.traceparent.decode() for call in recorded}
        assert headers["traceparent"] in sent, "the ledger knows it by the span"


async def test_while_no_other_replica_is_warm_a_cold_one_is_used(obey: Obey, start_server: StartServer) -> None:
    servers = [await start_server(SGLang), await start_server(SGLang)]
    for server in servers:
        server.gate.clear()
    state = obey(*servers)
    await eventually_async(lambda: all(server.running == 1 for server in servers))
    assert chosen(state) == set(state.replicas), "as at the start of a gateway: none of them waits for the other"
    servers[0].gate.set()
    await eventually_async(lambda: state.warm_ups.warmed == 1)
    assert chosen(state) == set(state.replicas), "nor does the first to be warm get everything"


async def test_a_cold_replica_is_used_once_the_warm_one_is_gone(obey: Obey, start_server: StartServer) -> None:
    old, new = await start_server(SGLang), await start_server(SGLang)
    first = await warm(obey, old)
    new.gate.clear()
    state = obey(old, new)
    await eventually_async(lambda: new.running == 1)
    assert chosen(state) == {first}
    take_down(first)
    assert chosen(state) == {state.replicas[1]}


async def test_one_that_does_not_answer_in_time_is_used_all_the_same_and_that_is_said(
    obey: Obey, start_server: StartServer
) -> None:
    old, new = await start_server(SGLang), await start_server(SGLang)
    await warm(obey, old)
    new.fault = "mute"
    with capture_logs() as logs:
        state = obey(old, new, warm_up=WarmUp(2, within_s=0.2))  # type: ignore[arg-type]
        await eventually_async(lambda: state.warm_ups.given_up == 1)
    assert chosen(state) == set(state.replicas)
    assert [log["reason"] for log in logs if log["event"] == "replica.warm_up_given_up"] == [
        "a request was not answered in time"
    ]
    assert (
        readiness.server(state.replicas[1])["warming"] == "its warm-up was given up: a request was not answered in time"
    )
    await eventually_async(lambda: new.aborted == 1)


@pytest.mark.parametrize("fault", ["500", "busy", "abort", "no finish reason", "cut midway"])
async def test_what_fails_is_tried_again_and_is_no_failure_of_a_user_s_request(
    obey: Obey, start_server: StartServer, fault: str
) -> None:
    old, new = await start_server(SGLang), await start_server(SGLang)
    first = await warm(obey, old)
    new.fault = fault
    state = obey(old, new)
    await eventually_async(lambda: state.warm_ups.failed >= 2)
    assert chosen(state) == {first}
    assert state.replicas[1].health.debt(0) == 0
    new.fault = ""
    await eventually_async(lambda: state.warm_ups.warmed == 2)


@pytest.mark.parametrize("kind", [TextOnly, EmbedsOnly])
async def test_what_a_server_is_for_is_found_out(
    obey: Obey, start_server: StartServer, kind: type[ModelServer]
) -> None:
    server = await start_server(kind)
    state = obey(server)
    await eventually_async(lambda: state.warm_ups.warmed == 1)
    refused = 1 if kind is TextOnly else 2
    assert (state.warm_ups.answered, state.warm_ups.failed) == (2, refused), "the form that was taken is used again"
    assert server.bodies[-1]["prompt" if kind is TextOnly else "input"]


async def test_a_server_that_says_that_its_model_embeds_gets_no_chat(obey: Obey, start_server: StartServer) -> None:
    server = await start_server(SGLang)
    server.operations = EMBEDDING
    state = obey(server)
    await eventually_async(lambda: state.warm_ups.warmed == 1)
    assert (state.warm_ups.answered, state.warm_ups.failed) == (2, 0)


async def test_a_server_that_refuses_every_form_is_used_at_once(obey: Obey, start_server: StartServer) -> None:
    old, new = await start_server(SGLang), await start_server(TakesNothing)
    await warm(obey, old)
    state = obey(old, new)
    await eventually_async(lambda: state.warm_ups.given_up == 1)
    assert readiness.server(state.replicas[1])["warming"] == "its warm-up was given up: HTTP 400: no such task"


async def test_only_after_a_long_absence_a_replica_is_cold_again(
    obey: Obey, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [await start_server(SGLang), await start_server(SGLang)]
    state = obey(*servers)
    await eventually_async(lambda: state.warm_ups.warmed == 2)
    back = state.replicas[1]
    take_down(back)
    await eventually_async(lambda: back.health.state == "up")
    assert (back.warming.missing, back.warming.kept_back) == (0, False)
    monkeypatch.setattr(Warming, "AWAY_S", 0.0)
    servers[1].gate.clear()
    take_down(back)
    await eventually_async(lambda: back.health.state == "up")
    assert (back.warming.missing, back.warming.kept_back) == (2, True)
    servers[1].gate.set()
    await eventually_async(lambda: state.warm_ups.warmed == 3)


async def test_a_replica_that_is_lost_during_a_probe_comes_up_with_it(
    obey: Obey, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [await start_server(SGLang), await start_server(SGLang)]
    state = obey(*servers)
    await eventually_async(lambda: state.warm_ups.warmed == 2)
    monkeypatch.setattr(Warming, "AWAY_S", 0.0)
    back = state.replicas[1]
    began, may_end, ready = asyncio.Event(), asyncio.Event(), back.backend.ready

    async def slow(timeout_s: float) -> bool:
        began.set()
        await may_end.wait()
        return await ready(timeout_s)

    monkeypatch.setattr(back.backend, "ready", slow)
    back.probe_soon()
    await began.wait()
    take_down(back)
    may_end.set()
    await eventually_async(lambda: state.warm_ups.warmed == 3)


async def test_a_warm_up_that_is_not_wanted_any_more_holds_nothing(obey: Obey, start_server: StartServer) -> None:
    old, new = await start_server(SGLang), await start_server(SGLang)
    await warm(obey, old)
    new.gate.clear()
    obey(old, new)
    await eventually_async(lambda: new.running == 1)
    state = obey(old, new, warm_up=WarmUp())
    assert chosen(state) == set(state.replicas)
    assert "warming" not in readiness.server(state.replicas[1])


async def test_the_warm_up_of_a_replica_that_is_removed_ends(obey: Obey, start_server: StartServer) -> None:
    old, new = await start_server(SGLang), await start_server(SGLang)
    await warm(obey, old)
    new.gate.clear()
    obey(old, new)
    await eventually_async(lambda: new.running == 1)
    obey(old)
    await eventually_async(lambda: (new.running, new.aborted) == (0, 1))
