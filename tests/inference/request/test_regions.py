"""A tenant that is pinned to regions is served there or not at all, and hears why."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import APIStatusError

from inference.contract.rules import Overlay, Route
from inference.contract.snapshot import Endpoint, Model, Pool
from inference.core.backend_errors import UnreachableError
from inference.core.cache_key import cache_key
from inference.core.events import Event
from inference.core.question import Message, Question
from tests.support.gateway.scripted import USAGE, ScriptedBackend, Servers, a_snapshot, serve_pools

ANSWER = Event("x", 0, "stop", usage=USAGE)
NEVER_MS = 2**52


def a_fleet(**changes: Any) -> Any:
    """`eu` and `us`, and a failover from the one to the other in force. Its tenant may be served in the EU alone."""
    pools = [
        Pool(name, "v", name, "m", "", (Endpoint("r0", url=f"http://{name}/v1"),), protocol="openai")
        for name in ("eu", "us")
    ]
    snapshot = a_snapshot(*pools, fallbacks=("us",))
    failed = Overlay(1, "d", NEVER_MS, {"m": (Route("us"),)}, {"eu": ("us",)})
    tenant = msgspec.structs.replace(snapshot.tenants[0], regions=("eu",))
    return msgspec.structs.replace(snapshot, tenants=(tenant,), **{"overlay": failed, **changes})


async def _ask(given: Any, eu: ScriptedBackend, us: ScriptedBackend, folder: Path, patch: pytest.MonkeyPatch) -> Any:
    """Its answer, or its error; and the pages of the gateway's metrics."""
    servers = Servers(eu=eu, us=us)
    async with serve_pools(lambda *_, **__: servers, given, folder, patch) as client:
        try:
            return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}])
        except APIStatusError as error:
            return error


async def test_a_failover_does_not_take_it_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eu, us = ScriptedBackend((ANSWER,)), ScriptedBackend((ANSWER,))
    answer = await _ask(a_fleet(), eu, us, tmp_path, monkeypatch)
    assert answer.choices[0].message.content == "x"
    assert (len(eu.questions), us.questions) == (1, [])


async def test_nor_does_a_fallback_when_its_region_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eu, us = ScriptedBackend(UnreachableError("gone")), ScriptedBackend((ANSWER,))
    error = await _ask(a_fleet(overlay=Overlay()), eu, us, tmp_path, monkeypatch)
    assert (error.status_code, us.questions) == (503, [])


async def test_without_any_place_the_error_says_which_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = a_fleet()
    tenant = msgspec.structs.replace(given.tenants[0], regions=("ch",))
    eu, us = ScriptedBackend((ANSWER,)), ScriptedBackend((ANSWER,))
    error = await _ask(msgspec.structs.replace(given, tenants=(tenant,)), eu, us, tmp_path, monkeypatch)
    assert (error.status_code, error.code, error.body["reason"]) == (403, "region_not_allowed", "region")
    assert (
        error.body["message"] == "Tenant 'alice' may be served by 'm' in ch alone, and no pool of the model is there."
    )
    assert (eu.questions, us.questions) == ([], [])


def test_an_answer_from_elsewhere_is_not_in_its_cache() -> None:
    """Also where tenants share answers."""
    shared = Model("m", (Route("eu"),))
    shared = msgspec.structs.replace(shared, cache=msgspec.structs.replace(shared.cache, scope="all"))
    pool, question = Pool("eu", "v", "eu", "m", ""), Question(operation="chat", messages=(Message("user", "Hi"),))
    keys = {
        cache_key(question, shared, pool, tenant, regions)
        for tenant, regions in (
            ("a", None),
            ("b", frozenset({"eu"})),
            ("c", frozenset({"eu"})),
            ("d", frozenset({"us"})),
        )
    }
    assert len(keys) == 3
