"""What the gateway hands on to the lane, and how: bodies while they come, and errors that say whether to send again."""

import json
import socket
from collections.abc import Iterator

import pytest

from deploy.local.ports import LOOPBACK
from tests.support.gateway.process import KEY, Gateway, StartGateway
from tests.support.lane.lane_standin import LaneStandin
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import TOKEN, a_fleet
from tests.support.wait import eventually

SIZE = 3 << 20
PATIENCE_S = 300


@pytest.fixture
def lane() -> Iterator[LaneStandin]:
    standin = LaneStandin().start()
    yield standin
    standin.stop()


@pytest.fixture
def gateway(start_gateway: StartGateway, lane: LaneStandin) -> Iterator[Gateway]:
    model = EchoServer().start()
    yield start_gateway(a_fleet(model.url), lane_url=lane.url, lane_token=TOKEN, read_timeout_ms="400")
    model.stop()


def head(*fields: str, size: int = SIZE, key: str = KEY) -> bytes:
    lines = ("POST /v1/files HTTP/1.1", "host: x", f"authorization: Bearer {key}", f"content-length: {size}", *fields)
    return "\r\n".join((*lines, "", "")).encode()


class Wire:
    """A connection whose requests are written by hand."""

    def __init__(self, gateway: Gateway) -> None:
        self._socket = socket.create_connection((LOOPBACK, gateway.port), timeout=PATIENCE_S)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], dict[str, object]]:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        return status, headers, json.loads(self._file.read(int(headers["content-length"])))

    def leave(self) -> None:
        self._file.close()
        self._socket.close()

    def is_over(self) -> bool:
        return self._file.read(1) == b""


def code(body: dict[str, object]) -> object:
    error = body["error"]
    assert isinstance(error, dict)
    return error["code"]


def test_a_body_passes_while_it_comes_and_the_connection_goes_on(gateway: Gateway, lane: LaneStandin) -> None:
    wire = Wire(gateway)
    for _ in range(2):
        wire.send(head("expect: 100-continue", "x-weir-tenant: bob", "content-type: text/plain"))
        assert wire._file.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert wire._file.readline() == b"\r\n"
        wire.send(b"x" * SIZE)
        status, _, body = wire.answer()
        assert (status, body["size"]) == (200, SIZE)
        assert (lane.headers["x-weir-tenant"], lane.headers["content-type"]) == ("alice", "text/plain")
        assert lane.headers["authorization"] == f"Bearer {TOKEN}"
    wire.send(f"GET /v1/files?limit=1&after=a%20b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n".encode())
    assert wire.answer()[2]["query"] == "limit=1&after=a b", "as the lane decodes it"


def test_who_may_not_upload_hears_it_before_the_body_is_sent(gateway: Gateway) -> None:
    for fields, status, what in (
        (head(key="unknown"), 401, "invalid_api_key"),
        (head(size=600 << 20), 413, "request_too_large"),
    ):
        wire = Wire(gateway)
        wire.send(fields)
        answered, _, body = wire.answer()
        assert (answered, code(body)) == (status, what)


def test_a_client_that_stops_in_the_middle_is_answered_and_the_lane_is_not_left_waiting(
    gateway: Gateway, lane: LaneStandin
) -> None:
    wire = Wire(gateway)
    wire.send(head() + b"x" * 1000)
    status, headers, body = wire.answer()
    assert (status, code(body), headers["connection"]) == (408, "request_timeout", "close")
    assert wire.is_over()
    eventually(lambda: lane.cut == 1)
    wire = Wire(gateway)
    wire.send(head() + b"x" * 1000)
    eventually(lambda: lane.begun == 2)
    wire.leave()
    eventually(lambda: lane.cut == 2)


def test_an_answer_that_comes_before_the_body_has_ended_is_passed_on(gateway: Gateway, lane: LaneStandin) -> None:
    lane.does = "early"
    wire = Wire(gateway)
    wire.send(head() + b"x" * 1000)
    status, headers, body = wire.answer()
    assert (status, code(body), headers["connection"]) == (400, "refused_early", "close")


def test_a_lost_answer_is_sent_again_only_where_that_is_safe(gateway: Gateway, lane: LaneStandin) -> None:
    lane.does = "lost"
    for method, fields, status, retries in (
        ("POST", {}, 502, "false"),
        ("POST", {"Idempotency-Key": "1"}, 503, "true"),
        ("GET", {}, 503, "true"),
    ):
        answered, headers, _ = gateway.ask(method, "/v1/batches", b"{}", headers=fields)
        assert (answered, headers["x-should-retry"]) == (status, retries)
    lane.does = "whole"
    assert gateway.get("/v1/batches")[0] == 200


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
def test_a_body_that_is_nested_without_end_is_the_clients_mistake(gateway: Gateway, path: str) -> None:
    body = b'{"model":"m","background":true,"input":' + b"[" * 50_000
    status, _, said = gateway.ask("POST", path, body)
    assert (status, json.loads(said)["error"]["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("odd", [b"NaN", b'"\\ud800 "'], ids=["no number", "half a pair"])
def test_a_background_response_is_for_the_lane_though_model_servers_alone_would_read_it(
    gateway: Gateway, lane: LaneStandin, odd: bytes
) -> None:
    body = b'{"model":"echo","input":"x","background":true,"seed":%s}' % odd
    status, _, text = gateway.ask("POST", "/v1/responses", body)
    assert (status, json.loads(text)["size"]) == (200, len(body))
