"""Memory stays bounded for any input, measured on the real process."""

import asyncio
import gzip
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import grpc
import psutil
import pytest
from google.rpc.status_pb2 import Status

from controlplane.telemetry.ingest.otlp.decode.from_json import MAX_VALUES
from tests.support.telemetry.otlp_grpc import EXPORT, connected, refusal
from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.process import Running
from tests.support.wait import eventually

MIB = 2**20


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """200 MiB of zeroes in 200 KB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packer.compress(bytes(MIB)) for _ in range(200)]) + packer.flush()


@contextmanager
def growth_under(limit: int, telemetry: Running) -> Iterator[None]:
    """Sample the process's resident memory while the block runs. It must grow by less than `limit`."""
    assert telemetry.process is not None
    process, ended = psutil.Process(telemetry.process.pid), threading.Event()
    before = highest = process.memory_info().rss

    def watch() -> None:
        nonlocal highest
        while not ended.wait(0.005):
            highest = max(highest, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    assert highest - before < limit, f"memory grew by {(highest - before) / MIB:.0f} MiB"


def test_a_gzip_bomb_over_http_is_413_and_costs_less_than_100_mb(telemetry: Running, bomb: bytes) -> None:
    with growth_under(100_000_000, telemetry):
        code, body, _ = telemetry.post(bomb, Content_Encoding="gzip")
    assert (code, Status.FromString(body).code) == (413, 8)
    assert telemetry.post(request().SerializeToString())[0] == 200


def test_a_gzip_bomb_over_grpc_costs_less_than_100_mb(telemetry: Running, bomb: bytes) -> None:
    with connected(telemetry) as channel, growth_under(100_000_000, telemetry):
        error = refusal(channel.unary_unary(EXPORT), bomb)
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_body_over_the_limit_is_413_before_it_is_read(telemetry: Running) -> None:
    with growth_under(20_000_000, telemetry):
        code, body, _ = telemetry.post(bytes(65 * MIB))
    assert (code, Status.FromString(body).code) == (413, 8)


def test_a_body_of_unknown_length_is_413_where_it_passes_the_limit(telemetry: Running) -> None:
    async def send() -> int:
        async def pieces() -> object:
            for _ in range(80):
                yield bytes(MIB)

        async with aiohttp.ClientSession() as session:
            headers = {"Content-Type": "application/x-protobuf"}
            async with session.post(f"{telemetry.url}/v1/traces", data=pieces(), headers=headers) as answer:
                return answer.status

    with growth_under(100_000_000, telemetry):
        assert asyncio.run(send()) == 413


@pytest.mark.parametrize(
    "inner", [b"\x12\x00", b"\x0a\x00"], ids=["thirty million empty spans", "thirty million empty scopes"]
)
def test_what_is_tiny_on_the_wire_is_not_built_in_memory(telemetry: Running, inner: bytes) -> None:
    scope = inner * (1 * MIB)
    body = message(1, message(2, scope))
    with growth_under(100_000_000, telemetry):
        code, answer, _ = telemetry.post(body)
    assert code == 200 and (b"trace_id" in answer) == (inner == b"\x12\x00")


def test_a_span_of_a_million_attributes_is_refused_by_itself(telemetry: Running) -> None:
    made = request(1)
    huge = message(1, message(2, message(2, b"\x4a\x00" * (3 * MIB))))
    with growth_under(100_000_000, telemetry):
        code, answer, _ = telemetry.post(made.SerializeToString() + huge)
    assert (code, b"a span is larger than" in answer) == (200, True)


def test_json_of_too_many_objects_is_bad_data(telemetry: Running) -> None:
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b",".join([b"{}"] * MAX_VALUES) + b"]}]}]}"
    with growth_under(100_000_000, telemetry):
        assert telemetry.post(body, Content_Type="application/json")[0] == 400


def test_more_in_flight_than_is_allowed_is_429_with_retry_after(guarded: Running) -> None:
    token = {"Authorization": "Bearer secret"}
    code, _, headers = guarded.post(gzip.compress(bytes(3 * MIB)), Content_Encoding="gzip", **token)
    assert (code, headers["Retry-After"]) == (429, "1")
    assert guarded.post(gzip.compress(bytes(MIB)), Content_Encoding="gzip", **token)[0] == 400, "nothing is in flight"


def test_a_sender_that_goes_away_half_way_leaves_nothing_in_flight(telemetry: Running) -> None:
    async def half() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", telemetry.http_port)
        head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000000\r\n\r\n"
        writer.write(head + bytes(400_000))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    asyncio.run(half())
    assert telemetry.post(request().SerializeToString())[0] == 200
    eventually(lambda: telemetry.metric("weir_ingest_inflight_bytes") == 0, "nothing is left of it")
    assert "Traceback" not in telemetry.log.read_text()


def message(field: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    length, size = b"", len(content)
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([field << 3 | 2]) + length + bytes([size]) + content
