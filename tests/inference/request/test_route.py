"""Which pool a request begins with, and what its client hears of a fallback that answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.backends.fleet import PoolState
from inference.contract.plan import Plan
from inference.contract.snapshot import Endpoint, Model, Pool, Route
from inference.core.backend_errors import FailedError
from inference.core.events import Event
from inference.core.openai.errors import ApiError
from inference.core.passing.request import Passed, made
from inference.request.generate import generate
from inference.request.parse import ENDPOINTS
from inference.request.route import check_output, choose_pool, fallbacks_of, for_pool
from inference.snapshot.serving import Serving
from tests.support.gateway.scripted import (
    DONE,
    USAGE,
    ScriptedBackend,
    Servers,
    a_flight,
    a_pool,
    a_snapshot,
    serve_pools,
    some_work,
    take_down,
)

HELLO = made("/v1/chat/completions", "chat", {"model": "m", "messages": [], "temperature": 0})
MODEL = Model("m", (Route("a"), Route("b")), fallbacks=("c", "d", "gone"))


PLAN = Plan(MODEL.routes, MODEL.fallbacks, "deterministic")


def serving(*up: str) -> tuple[Serving, dict[str, PoolState]]:
    """The pools a to d, of which these have a replica that is not down."""
    pools = {name: a_pool(ScriptedBackend((Event("x"), DONE)), name=name) for name in "abcd"}
    for name, pool in pools.items():
        if name not in up:
            take_down(pool.replicas[0])
    return Serving(a_snapshot(), {}, {}, pools, ()), pools


def chosen(given: Serving, *, cacheable: bool = True) -> set[str]:
    return {choose_pool(given, PLAN, HELLO, cacheable).pool.name for _ in range(30)}


@pytest.mark.parametrize(
    ("up", "pools", "after"),
    [
        ("abcd", {"a", "b"}, ["c", "d"]),
        ("bcd", {"b"}, ["c", "d"]),
        ("cd", {"c"}, ["d"]),
        ("d", {"d"}, []),
    ],
)
def test_a_request_begins_with_the_first_fallback_only_while_no_route_has_a_replica(
    up: str, pools: set[str], after: list[str]
) -> None:
    given, states = serving(*up)
    assert chosen(given, cacheable=False) == pools
    [always] = chosen(given)
    assert always in pools, "equal questions meet their cached answers"
    assert [state.pool.name for state in fallbacks_of(given, PLAN, states[always])] == after


def test_without_any_replica_it_stays_with_a_route_whose_error_the_client_gets() -> None:
    given, _ = serving()
    assert chosen(given, cacheable=False) <= {"a", "b"}


@pytest.mark.parametrize(
    ("path", "limits", "refused"),
    [
        ("/v1/chat/completions", {}, ""),
        ("/v1/chat/completions", {"max_tokens": 100}, ""),
        ("/v1/chat/completions", {"max_tokens": 101}, "max_tokens"),
        ("/v1/chat/completions", {"max_tokens": 5, "max_completion_tokens": 101}, "max_completion_tokens"),
        ("/v1/chat/completions", {"max_completion_tokens": 5, "max_tokens": 101}, "max_tokens"),
        ("/v1/chat/completions", {"max_tokens": "101"}, "max_tokens"),  # as servers in Python take it
        ("/v1/completions", {"max_tokens": 101.0}, "max_tokens"),
        ("/v1/chat/completions", {"max_tokens": "many"}, ""),  # the server refuses it
        ("/v1/responses", {"max_output_tokens": 101}, "max_output_tokens"),
        ("/v1/messages", {"max_tokens": 101}, "max_tokens"),
        ("/v1/embeddings", {"max_tokens": 101}, ""),
    ],
)
def test_the_owner_s_limit_on_output_holds_at_servers_that_get_requests_as_they_came(
    path: str, limits: dict[str, Any], refused: str
) -> None:
    model = Model("m", (Route("a"),), max_output_tokens=100)
    body = ENDPOINTS[path].parse(path, json.dumps({"model": "m", "messages": [], **limits}).encode())
    backend = ScriptedBackend((Event("x"), DONE))
    backend.passes = True
    given, _ = for_pool(body, model, a_pool(backend, name="a"))  # as a fallback of a server that has lowered the limit
    assert (given.max_tokens or 0) <= 100 or path == "/v1/embeddings"
    if refused:
        with pytest.raises(ApiError, match=r"is 101, and this model gives at most 100") as caught:
            check_output(body.passed, model)
        assert (caught.value.status, caught.value.param) == (400, refused)
    else:
        check_output(body.passed, model)
        assert given is body.passed


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        ({}, {"max_tokens": 9}),
        ({"max_tokens": None}, {"max_tokens": 9}),
        ({"max_tokens": 0}, {"max_tokens": 0}),  # as who wants the prompt's probabilities asks
        ({"max_tokens": -1}, {"max_tokens": -1}),
        ({"max_tokens": "many"}, {"max_tokens": "many"}),  # the server refuses it
        ({"max_completion_tokens": 0}, {"max_completion_tokens": 0}),
    ],
)
def test_a_pool_s_default_takes_no_limit_s_place(limits: dict[str, Any], sent: dict[str, Any]) -> None:
    body = ENDPOINTS["/v1/completions"].parse(
        "/v1/completions", json.dumps({"model": "m", "prompt": "a", **limits}).encode()
    )
    backend = ScriptedBackend((DONE,))
    backend.passes = True
    pool = a_pool(backend, name="a", max_output_default=9)
    for most, wanted in ((0, sent), (5, {"max_tokens": 5} if sent.get("max_tokens") in (9, -1, "many") else sent)):
        given, _ = for_pool(body, MODEL, pool, most)
        assert isinstance(given, Passed)
        assert json.loads(given.rendered({})) == {"model": "m", "prompt": "a", **wanted}


async def test_requests_that_begin_with_a_fallback_are_counted_as_such() -> None:
    _, pools = serving("c")
    for name in "ac":
        flight = a_flight()
        pools[name].replicas[0].health.answered()
        await generate(some_work(pools[name])._replace(model=MODEL, plan=PLAN), flight)
        assert flight.error is None
    assert (pools["a"].tally.fallbacks, pools["c"].tally.fallbacks) == (0, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_fallback_that_answers_drops_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    first, second = ScriptedBackend(FailedError("no", "500")), ScriptedBackend((Event("x", 0, "stop", usage=USAGE),))
    for backend, name in ((first, "top_k"), (second, "min_p")):
        parameters: dict[str, Any] = {**backend.capabilities.parameters, name: "dropped"}
        backend.capabilities = backend.capabilities._replace(parameters=parameters)
    pools = [
        Pool(name, name, "r", "m", "", (Endpoint("r0", url=f"http://{name}/v1"),), protocol="openai", **limit)
        for name, limit in (("first", {"max_output_default": 9}), ("second", {}))
    ]
    snapshot = a_snapshot(*pools, fallbacks=("second",))
    servers = Servers(first=first, second=second)
    async with serve_pools(lambda *_, **__: servers, snapshot, tmp_path, monkeypatch) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="m",
            messages=[{"role": "user", "content": "Hello"}],
            user="me",
            extra_body={"top_k": 4, "min_p": 0.5},
            stream=stream,  # type: ignore[call-overload]
        )
    assert raw.headers["x-weir-dropped"].split(", ") == ["user", "top_k", "min_p"]
    assert (first.questions[0].max_tokens, second.questions[0].max_tokens) == (9, None)
