"""What a gateway process keeps of the texts of a tenant that asks for it: hashes that whoever has key and text comes to by himself."""

import asyncio
import hashlib
import hmac
import json
from typing import Any

import grpc
import msgspec

from controlplane.telemetry.ledger.close import close
from controlplane.telemetry.ledger.row import LedgerRow
from inference.contract.metering.text_audit import NO_KEY
from inference.contract.snapshot import Endpoint, GuardRule, Model, Pool, Route, Snapshot, Tenant, Tier, key_digest
from tests.support.gateway.process import (
    KEY,
    OTHER_KEY,
    SMALL,
    USER_HASH_KEY,
    Gateway,
    Receiver,
    Serve,
    a_snapshot,
    unique,
)
from tests.support.gateway.triton_double import StartDouble
from tests.support.servers.saying import Server
from tests.support.telemetry.otlp_payloads import spans_in

CARD = "4111 1111 1111 1111"


def hashed(part: str, body: bytes, tenant: str = "acme") -> str:
    """As the documentation says it."""
    key = hmac.new(USER_HASH_KEY.encode(), b"\0audit\0" + tenant.encode(), hashlib.sha256).digest()
    name = hmac.new(key, b"id", hashlib.sha256).hexdigest()[:8]
    return f"{name}:{hmac.new(key, part.encode() + bytes(1) + body, hashlib.sha256).hexdigest()}"


async def sent(gateway: Gateway, document: dict[str, Any], key: str = KEY) -> tuple[int, str, bytes, bytes]:
    """Status, trace id, and the bytes of request and answer."""
    body = json.dumps(document).encode()
    status, headers, answer = await asyncio.to_thread(gateway.ask, "POST", "/v1/chat/completions", body, key)
    return status, headers["x-request-id"], body, answer.encode()


async def row_of(receiver: Receiver, trace_id: str) -> LedgerRow:
    await receiver.trace(trace_id)
    spans = [span for body in receiver.bodies for span in spans_in(body) if span.trace_id.hex() == trace_id]
    [row] = close(spans)
    return row


async def audited(server: Server, serve: Serve) -> Gateway:
    """Acme asks for the audit and has a rule, bob does not."""
    endpoint = Endpoint("r0", url=server.url)
    snapshot = Snapshot(
        1,
        (Model("m", (Route("p"),)),),
        (Pool("p", "v", "r", "m", "", (endpoint,), protocol="openai", server="other"),),
        (Tier("standard"),),
        (
            Tenant("acme", "standard", (key_digest(KEY),), audits_texts=True),
            Tenant("bob", "standard", (key_digest(OTHER_KEY),)),
        ),
        guards=(GuardRule("acme/cards", "acme", "patterns", "mask", answers=True, patterns=("card",)),),
    )
    return await asyncio.to_thread(serve, snapshot)


async def test_hashes_are_of_the_bytes_that_the_client_sent_and_got(serve_cached: Serve, receiver: Receiver) -> None:
    async with Server(f"It is {CARD}, or so.").serving() as server:
        gateway = await audited(server, serve_cached)
        asked = {"model": "m", "messages": unique(f" {CARD}"), "temperature": 0}
        rows = []
        long: dict[str, Any] = {"messages": unique(100_000 * "x"), "temperature": 1}  # which is hashed in a thread
        for options in ({}, {}, {"stream": True}, {"temperature": 1, "stream": True}, long):
            status, trace_id, body, answer = await sent(gateway, asked | options)
            row = await row_of(receiver, trace_id)
            assert status == 200 and CARD.encode() not in answer
            assert (row.prompt_hash, row.prompt_bytes) == (hashed("prompt", body), len(body))
            assert (row.answer_hash, row.answer_bytes) == (hashed("answer", answer), len(answer))
            rows.append(row)
        assert [row.cache_outcome for row in rows] == ["miss", "hit", "miss", "bypass", "bypass"]
        assert [row.guard for row in rows] == ["acme/cards masked"] * 5
        assert CARD not in repr(receiver.bodies)

        status, trace_id, body, _ = await sent(gateway, asked | {"model": "other"})
        refused = await row_of(receiver, trace_id)
        assert (status, refused.prompt_hash, refused.prompt_bytes) == (404, hashed("prompt", body), len(body))
        assert (refused.answer_hash, refused.answer_bytes) == ("", None)

        _, trace_id, _, _ = await sent(gateway, asked, OTHER_KEY)
        [root] = [span for span in await receiver.trace(trace_id) if "weir.request" in span.attributes]
        assert not [name for name in root.attributes if name.startswith("weir.audit")]


async def test_without_a_key_it_is_said(serve: Serve, receiver: Receiver) -> None:
    async with Server("Yes.").serving() as server:
        gateway = await audited(server, serve)
        _, trace_id, body, answer = await sent(gateway, {"model": "m", "messages": unique()})
        row = await row_of(receiver, trace_id)
        assert (row.prompt_hash, row.prompt_bytes) == (NO_KEY, len(body))
        assert (row.answer_hash, row.answer_bytes) == (NO_KEY, len(answer))
        ready = await asyncio.to_thread(gateway.ready)
        assert ready["policy_faults"] == [
            "tenant 'acme': its texts are not hashed: set WEIR_USER_HASH_KEY, the same for all gateways"
        ]
        assert "WEIR_USER_HASH_KEY" in gateway.log.read_text()


async def begun(
    gateway: Gateway, document: dict[str, Any]
) -> tuple[str, bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream whose first part has come: its trace id, and that part of its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    body = json.dumps(document | {"stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answered = (await reader.readuntil(b"\r\n\r\n")).decode()
    return answered.partition("x-request-id: ")[2].split()[0], await chunk(reader), reader, writer


async def chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(size + 2))[:-2]


async def test_of_an_answer_that_its_client_leaves_the_hash_is_of_what_was_sent_and_who_shares_it_has_its_own(
    serve_cached: Serve, receiver: Receiver
) -> None:
    async with Server("One two three.", size=4).serving() as server:
        gateway = await audited(server, serve_cached)
        server.gate.clear()
        asked = {"model": "m", "messages": unique(), "temperature": 0}
        left, got, _, leader = await begun(gateway, asked)
        shares, whole, reader, follower = await begun(gateway, asked)
        leader.close()
        row = await row_of(receiver, left)
        assert (row.status, row.http_status, row.error_type) == ("cancelled", 499, "client_disconnected")
        assert (row.answer_hash, row.answer_bytes) == (hashed("answer", got), len(got))

        server.gate.set()
        while part := await chunk(reader):
            whole += part
        row = await row_of(receiver, shares)
        assert (row.status, row.cache_outcome) == ("ok", "coalesced") and whole.endswith(b"data: [DONE]\n\n")
        assert (row.answer_hash, row.answer_bytes) == (hashed("answer", whole), len(whole))
        follower.close()


async def test_answers_that_the_gateway_writes_itself_are_hashed_as_they_are_sent(
    serve_cached: Serve, start_double: StartDouble, receiver: Receiver
) -> None:
    """For a Triton it makes the JSON and the events of OpenAI's API."""
    double = await start_double()
    tenant = Tenant("acme", "standard", (key_digest(KEY),), audits_texts=True)
    snapshot = msgspec.structs.replace(a_snapshot(double.address), tenants=(tenant,))
    gateway = await asyncio.to_thread(serve_cached, snapshot)
    for stream in (False, True):
        status, trace_id, body, answer = await sent(gateway, {"model": SMALL, "messages": unique(), "stream": stream})
        row = await row_of(receiver, trace_id)
        assert status == 200 and (row.prompt_hash, row.prompt_bytes) == (hashed("prompt", body), len(body))
        assert (row.answer_hash, row.answer_bytes) == (hashed("answer", answer), len(answer))
    double.gate.clear()
    trace_id, got, _, writer = await begun(gateway, {"model": SMALL, "messages": unique()})
    writer.close()
    row = await row_of(receiver, trace_id)
    assert (row.status, row.answer_hash, row.answer_bytes) == ("cancelled", hashed("answer", got), len(got))
    double.gate.set()

    double.error = grpc.StatusCode.INTERNAL
    status, trace_id, _, _ = await sent(gateway, {"model": SMALL, "messages": unique()})
    row = await row_of(receiver, trace_id)
    assert (status, row.answer_hash, row.answer_bytes) == (502, "", None)
