"""Two tenants fill a gateway, a lane, a ledger and a cache with strings that nothing else has. Whatever one of them then opens, as a person
or with a key, has nothing of the other.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.db import connection
from django.test import Client

from controlplane.accounts.models import ApiToken, TenantMembership
from controlplane.dashboard.fragments import LoggedOutError, fragment
from controlplane.fleet.models import GatewayKey, Region, Team, Tier
from controlplane.fleet.models import Tenant as Row
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from inference.contract.snapshot import CacheRule, Tenant, key_digest
from tests.support.gateway.issuer import AnIssuer
from tests.support.http_server import ThreadedServer
from tests.support.lane.model_server import MODEL, EchoServer
from tests.support.lane.process import Stack, a_fleet, a_line, jsonl, start_stack
from tests.support.soak import sized
from tests.support.start import Start
from tests.support.telemetry.process import Running
from tests.support.wait import eventually
from tests.support.web.document import api_document
from tests.support.web.urls import all_urls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
REQUESTS = sized(200, soak=10_000)
SENT = 8
"""That a model answers for each: a request, a line of a batch, a job and a response in the background, by a key and by a token."""


@dataclass
class Side:
    """A tenant: what is its own (`canaries`), what it made by its ids, and its person's ways in."""

    name: str
    key: str
    canaries: set[str]
    ids: dict[str, str] = field(default_factory=dict)
    browser: Client = field(default_factory=Client)
    robot: Client = field(default_factory=Client)

    def word(self) -> str:
        """One that nothing else has."""
        self.canaries.add(word := f"canary{secrets.token_hex(8)}")
        return word


Ask = Callable[[str, str, Any], tuple[int, str]]


@pytest.fixture
def sides(
    start: Start, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Stack, list[Side]]]:
    if connection.vendor != "sqlite":
        pytest.skip("the lane shares a database in a file")
    model, telemetry, issuer = EchoServer().start(), Running(tmp_path / "telemetry"), AnIssuer()

    async def public(_: web.Request) -> web.Response:
        return web.Response(body=issuer.keys())

    keys = ThreadedServer(web.get("/", public)).start()
    issuer.url = keys.url
    telemetry.start().ready()
    pair = [Side(name, name, {name}) for name in (f"tenant{secrets.token_hex(6)}" for _ in range(2))]
    try:
        tenants = tuple(Tenant(each.name, "standard", (key_digest(each.key),)) for each in pair)
        fleet = a_fleet(model.url, tenants=tenants, issuers=(issuer.known_as(),))
        cached = tuple(msgspec.structs.replace(each, cache=CacheRule("always")) for each in fleet.models)
        stack = start_stack(
            start, tmp_path, msgspec.structs.replace(fleet, models=cached), redis_url=redis_url,
            otlp=f"http://127.0.0.1:{telemetry.http_port}", database_url=f"sqlite:///{connection.settings_dict['NAME']}", migrated=True,
        )  # fmt: skip
        with telemetry.store() as store:
            monkeypatch.setattr(answers, "store", lambda: store)
            for each in pair:
                fill(stack, each, issuer)
            now_ns = time.time_ns()
            window = Window(now_ns - 3_600 * 10**9, now_ns + 600 * 10**9)
            eventually(lambda: store.latency.totals(window).requests == 2 * SENT)
            yield stack, pair
    finally:
        telemetry.stop()
        model.stop()
        keys.stop()


def call(
    stack: Stack, key: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    status, got, text = stack.gateway.ask(
        method, path, b"" if sent is None and method == "POST" else sent, key, headers
    )
    return status, f"{got} {text}"


def fill(stack: Stack, side: Side, issuer: AnIssuer) -> None:
    """Something of everything, one half with its key and one with a token of an issuer."""
    tier, _ = Tier.objects.get_or_create(name="standard")
    Region.objects.get_or_create(name="local")
    row = Row.objects.create(name=side.name, tier=tier, team=Team.objects.create(name=side.word()))
    GatewayKey.objects.adopt(row, side.word(), side.key)
    person = User.objects.create_user(side.word())
    TenantMembership.objects.create(tenant=row, user=person)
    side.browser.force_login(person)
    _, token = ApiToken.objects.issue(person, side.word(), ["admin"])
    side.robot = Client(headers={"authorization": f"Bearer {token}"})

    by_token = issuer.token(tenant=side.name)
    eventually(lambda: call(stack, by_token, "GET", "/v1/models")[0] == 200)
    for key in (side.key, by_token):
        said = side.word()
        chat = {**a_line("", said)["body"], "user": side.word(), "metadata": {side.word(): side.word()}}
        assert call(stack, key, "POST", "/v1/chat/completions", chat, {"idempotency-key": side.word()})[0] == 200
        side.ids["prompt"] = said
        edge = secrets.token_hex(8)
        lines = jsonl([a_line(side.word(), side.word())])
        parts = [
            f'--{edge}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'.encode(),
            f'--{edge}\r\ncontent-disposition: form-data; name="file"; filename="{side.word()}"\r\n\r\n'.encode(),
            lines, f"\r\n--{edge}--\r\n".encode(),
        ]  # fmt: skip
        form = {"content-type": f"multipart/form-data; boundary={edge}"}
        made: dict[str, dict[str, Any]] = {
            "files": _json(call(stack, key, "POST", "/v1/files", b"".join(parts), form)),
            "jobs": _json(
                call(stack, key, "POST", "/v1/jobs", {
                    "endpoint": "/v1/chat/completions", "body": a_line("", side.word())["body"], "metadata": {"canary": side.word()},
                })
            ),
            "responses": _json(call(stack, key, "POST", "/v1/responses", {"model": MODEL, "input": side.word(), "background": True})),
        }  # fmt: skip
        wanted = {
            "input_file_id": made["files"]["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h",
            "metadata": {"canary": side.word()},
        }  # fmt: skip
        made["batches"] = _json(call(stack, key, "POST", "/v1/batches", wanted))
        for kind in ("batches", "jobs", "responses"):
            path = f"/v1/{kind}/{made[kind]['id']}"
            eventually(lambda path=path, key=key: _json(call(stack, key, "GET", path))["status"] == "completed")  # type: ignore[misc]
        made["output"] = {
            "id": _json(call(stack, key, "GET", f"/v1/batches/{made['batches']['id']}"))["output_file_id"]
        }
        for kind, thing in made.items():
            side.ids[kind] = thing["id"]
            side.canaries.add(thing["id"])


def _json(answer: tuple[int, str]) -> dict[str, Any]:
    status, text = answer
    assert status < 300, text
    found: dict[str, Any] = json.loads(text[text.index("} {") + 2 :])
    return found


def ways(stack: Stack, me: Side, other: Side) -> list[Callable[[], tuple[str, str]]]:
    """Everything that one may send as `me`, with what is the other's wherever there is a place for it: what was sent, what came."""
    out: list[Callable[[], tuple[str, str]]] = []

    def by_key(method: str, path: str, body: Any = None) -> None:
        out.append(lambda: (f"{method} {path} {body}", call(stack, me.key, method, path, body)[1]))

    for kind in ("files", "batches", "jobs", "responses"):
        for its in (other.ids[kind], other.ids["output"]):
            by_key("GET", f"/v1/{kind}/{its}")
            by_key("GET", f"/v1/{kind}?after={its}")
            by_key("DELETE", f"/v1/{kind}/{its}")
            by_key("POST", f"/v1/{kind}/{its}/cancel")
            by_key("GET", f"/v1/{kind}/{its}/{'content' if kind == 'files' else 'input_items'}")
        by_key("GET", f"/v1/{kind}")
    batch = {"endpoint": "/v1/chat/completions", "completion_window": "24h", "input_file_id": other.ids["files"]}
    by_key("POST", "/v1/batches", batch)
    by_key("POST", "/v1/responses", {"model": MODEL, "input": "x", "previous_response_id": other.ids["responses"]})
    for path in ("/v1/models", "/readyz", "/healthz", "/nowhere"):
        by_key("GET", path)
    by_key("POST", "/v1/chat/completions", a_line("", other.ids["prompt"])["body"])

    names = (other.name, other.ids["batches"], "1", MODEL)
    pages = {path.replace("/x", f"/{name}") for path in all_urls() for name in names if path != "/logout"}
    operations = [
        (method.upper(), path) for path, methods in api_document()["paths"].items() for method in methods
    ]  # fmt: skip
    for path in pages:
        for query in ("", f"?tenant={other.name}&from=now-1h", f"?attribute=weir.tenant={other.name}"):
            out.append(lambda path=path, query=query: (path + query, _shown(me.browser.get(path + query))))  # type: ignore[misc]
        form = {"tenant": other.name, "name": other.name}
        out.append(lambda path=path, form=form: (f"{path} {form}", _shown(me.browser.post(path, form))))  # type: ignore[misc]
        out.append(lambda path=path: (path, _socket(me.browser, path)))  # type: ignore[misc]
    for method, shape in operations:
        for name in names:
            path = (
                "/".join(name if part.startswith("{") else part for part in shape.split("/")) + f"?tenant={other.name}"
            )
            for client in (me.robot, me.browser):
                out.append(
                    lambda client=client, method=method, path=path: (  # type: ignore[misc]
                        path, _shown(client.generic(method, path, "{}", "application/json")),
                    )
                )  # fmt: skip
    return out


def _shown(response: Any) -> str:
    body = b"".join(response.streaming_content) if response.streaming else response.content
    return f"{dict(response.headers)} {body.decode(errors='replace')}"


def _socket(client: Client, path: str) -> str:
    cookie = "; ".join(f"{name}={value.value}" for name, value in client.cookies.items())
    scope = {"headers": [(b"host", b"testserver"), (b"cookie", cookie.encode())], "client": ("127.0.0.1", 1)}
    try:
        return async_to_sync(fragment)(scope, path)
    except LoggedOutError:
        return ""


def test_nothing_of_one_tenant_is_in_anything_of_the_other(
    sides: tuple[Stack, list[Side]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for signal in (
        request_started,
        request_finished,
    ):  # the socket's requests run in this thread, beside its connection
        monkeypatch.setattr(signal, "receivers", [])
        signal.sender_receivers_cache.clear()
    stack, (alpha, beta) = sides
    for me in (alpha, beta):
        page, seen = _shown(me.browser.get(f"/tenants/{me.name}")), me.robot.get(f"/api/v1/tenants/{me.name}").json()
        assert (
            me.name in page
            and me.ids["batches"] in page
            and me.ids["jobs"] in call(stack, me.key, "GET", "/v1/jobs")[1]
        )
        assert seen["report"]["answered"] == SENT and seen["keys"][0]["used_ns"], (
            "its tokens' requests too, and which were its key's"
        )
        chart = json.loads(page.partition('id="figure" type="application/json">')[2].partition("</script>")[0])
        assert sum(sum(filter(None, it["y"])) for it in chart["data"] if it["name"] == "answered") == SENT
    draw = random.Random(25)
    walks = {me.name: ways(stack, me, other) for me, other in ((alpha, beta), (beta, alpha))}
    leaks: set[str] = set()
    for _ in range(REQUESTS):
        me, other = draw.sample((alpha, beta), 2)
        sent, came = draw.choice(walks[me.name])()
        leaks |= {f"{canary} after {sent}" for canary in other.canaries if canary in came and canary not in sent}
    assert not leaks
    for me in (alpha, beta):
        for kind in ("files", "batches", "jobs", "responses"):
            assert call(stack, me.key, "GET", f"/v1/{kind}/{me.ids[kind]}")[0] == 200, "nobody else has removed it"
