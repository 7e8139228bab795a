"""HTTP/1.1 as clients really speak it, and as they should not."""

import json
import re
import socket
import threading

import pytest

from deploy.local.ports import LOOPBACK
from inference.snapshot import Snapshot
from tests.inference.conftest import StartGateway
from tests.inference.running import KEY, SMALL, Gateway, unique, within

AUTH = f"authorization: Bearer {KEY}\r\n"


def speak(gateway: Gateway, *pieces: bytes, until_closed: bool = True) -> bytes:
    """Send the pieces one by one; everything that comes back until the gateway closes."""
    with socket.create_connection((LOOPBACK, gateway.port), timeout=20) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while data := connection.recv(65536):
            received += data
            if not until_closed:
                break
        return received


def request(body: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    head = f"POST /v1/chat/completions HTTP/{version}\r\nhost: x\r\n{AUTH}{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def question(**options: object) -> bytes:
    return json.dumps({"model": SMALL, "messages": unique(), "max_tokens": 2, **options}).encode()


def test_a_request_may_come_byte_by_byte(gateway: Gateway) -> None:
    raw = request(question(), "connection: close")
    answer = speak(gateway, *(raw[at : at + 7] for at in range(0, len(raw), 7)))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_body_may_be_chunked(gateway: Gateway) -> None:
    body = question()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{AUTH}connection: close\r\n"
    head += "transfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + 10]), body[at : at + 10]) for at in range(0, len(body), 10))
    assert b" 200 OK" in speak(gateway, head.encode(), chunks, b"0\r\n\r\n")


def test_requests_sent_ahead_are_answered_in_order(gateway: Gateway) -> None:
    ahead = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" + request(question())
    last = b"GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = speak(gateway, ahead + last)
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answer)
    assert statuses == [b"200", b"200", b"401"]


def test_http_1_0_gets_a_stream_without_chunks(gateway: Gateway) -> None:
    answer = speak(gateway, request(question(stream=True), version="1.0"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"data: ")
    assert body.endswith(b"data: [DONE]\n\n")


def test_expect_continue_is_answered(gateway: Gateway) -> None:
    body = question()
    with socket.create_connection((LOOPBACK, gateway.port), timeout=20) as connection:
        connection.sendall(request(body, "expect: 100-continue", "connection: close")[: -len(body)])
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_a_head_request_has_no_body(gateway: Gateway) -> None:
    answer = speak(gateway, b"HEAD /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"not http at all\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"x-a: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: a\r\n" % number for number in range(200)) + b"\r\n", 431),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
)
def test_what_is_not_right_is_refused_in_openais_shape(gateway: Gateway, raw: bytes, status: int) -> None:
    answer = speak(gateway, raw)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert b"connection: close" in head
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_a_client_that_sends_too_much_gets_to_see_why(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, max_body_bytes="2000")
    status, _, body = gateway.ask("POST", "/v1/chat/completions", b"x" * 3_000_000)
    assert (status, json.loads(body)["error"]["code"]) == (413, "request_too_large")
    chunked = f"POST /v1/chat/completions HTTP/1.1\r\n{AUTH}transfer-encoding: chunked\r\n\r\n".encode()
    answer = speak(gateway, chunked, b"bb8\r\n" + b"x" * 3000 + b"\r\n0\r\n\r\n")
    assert b" 413 " in answer


def test_a_stranger_cannot_make_it_keep_a_large_body(gateway: Gateway) -> None:
    status, _, body = gateway.ask("POST", "/v1/chat/completions", b"x" * 3_000_000, key="nobodys")
    assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")


def test_slow_and_idle_clients_are_let_go(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, read_timeout_ms="300", idle_timeout_ms="300")
    assert speak(gateway, b"POST /v1/chat/completions HTTP/1.1\r\n") == b""
    assert speak(gateway, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_cut_off(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    """Pipelined whole answers fill the socket's buffers; what matters is that others are served meanwhile."""
    gateway = start_gateway(snapshot)
    with socket.create_connection((LOOPBACK, gateway.port), timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(30):
            connection.sendall(request(question(stream=True, max_tokens=50)))
        assert gateway.ask("POST", "/v1/chat/completions", question())[0] == 200


def test_it_ends_after_the_requests_in_flight(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot)
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        status, _, body = gateway.ask("POST", "/v1/chat/completions", question(model="chat-large", max_tokens=100))
        answers.append((status, body))

    asking = threading.Thread(target=ask)
    asking.start()
    within(5, lambda: gateway.metric("weir_gateway_replica_in_flight") == 1)
    gateway.process.stop()
    asking.join()
    assert answers[0][0] == 200
    assert gateway.process.exit_code == 0
    with pytest.raises(OSError):
        socket.create_connection((LOOPBACK, gateway.port), timeout=1)
