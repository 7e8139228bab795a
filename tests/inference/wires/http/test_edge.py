"""HTTP/1.1 from correct clients and from faulty ones."""

import json
import re
import socket
import threading

import pytest

from deploy.local.ports import LOOPBACK
from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import Gateway, StartGateway
from tests.support.gateway.sockets import AUTH, question, request, speak
from tests.support.wait import eventually


def test_requests_sent_ahead_are_answered_in_order(gateway: Gateway) -> None:
    ahead = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" + request(question())
    last = b"GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = speak(gateway, ahead + last)
    statuses = re.findall(rb"HTTP/1.1 (\d+)", answer)
    assert statuses == [b"200", b"200", b"401"]


def test_a_thousand_requests_sent_at_once_are_all_answered(gateway: Gateway) -> None:
    last = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert statuses(speak(gateway, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 999 + last)) == [200] * 1000


def test_http_1_0_gets_a_stream_without_chunks(gateway: Gateway) -> None:
    answer = speak(gateway, request(question(stream=True), version="1.0"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"data: ")
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"not http at all\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"x-a: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: a\r\n" % number for number in range(200)) + b"\r\n", 431),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
)
def test_what_is_not_right_is_refused_in_openais_shape(gateway: Gateway, raw: bytes, status: int) -> None:
    answer = speak(gateway, raw)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert b"connection: close" in head
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/batches", "/v1/messages/b/results"]
)
@pytest.mark.parametrize(
    ("raw", "statuses", "kind"),
    [
        (
            "GET {} HTTP/1.1\r\nhost: x\r\n{}connection: close\r\n\r\n",
            {404, 405},
            ("not_found_error", "invalid_request_error"),
        ),
        ("POST {} HTTP/1.1\r\nhost: x\r\n{}content-length: 99999999999\r\n\r\n", {413}, ("request_too_large",)),
        ("POST {} HTTP/1.1\r\nhost: x\r\n{}content-length: -1\r\n\r\n", {400}, ("invalid_request_error",)),
        ("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: 80000\r\n\r\n", {401}, ("authentication_error",)),
        ("GET {} HTTP/1.1\r\nhost: x\r\nx-a: " + "a" * 100_000 + "\r\n\r\n", {431}, ("invalid_request_error",)),
    ],
)
def test_what_is_not_right_is_refused_in_anthropics_shape_at_its_urls(
    gateway: Gateway, path: str, raw: str, statuses: set[int], kind: tuple[str, ...]
) -> None:
    head, _, body = speak(gateway, raw.format(path, AUTH).encode()).partition(b"\r\n\r\n")
    answer = json.loads(body)
    assert int(head.split()[1]) in statuses
    assert (answer["type"], answer["error"]["type"] in kind) == ("error", True), answer


def test_a_client_that_sends_too_much_gets_to_see_why(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, max_body_bytes="2000")
    status, _, body = gateway.ask("POST", "/v1/chat/completions", b"x" * 3_000_000)
    assert (status, json.loads(body)["error"]["code"]) == (413, "request_too_large")
    chunked = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{AUTH}transfer-encoding: chunked\r\n\r\n".encode()
    answer = speak(gateway, chunked, b"bb8\r\n" + b"x" * 3000 + b"\r\n0\r\n\r\n")
    assert b" 413 " in answer


def test_a_stranger_cannot_make_it_keep_a_large_body(gateway: Gateway) -> None:
    status, _, body = gateway.ask("POST", "/v1/chat/completions", b"x" * 3_000_000, key="nobodys")
    assert (status, json.loads(body)["error"]["code"]) == (401, "invalid_api_key")


def test_slow_and_idle_clients_are_let_go(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, read_timeout_ms="300", idle_timeout_ms="300")
    assert speak(gateway, b"POST /v1/chat/completions HTTP/1.1\r\n") == b""
    assert speak(gateway, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_it_ends_after_the_requests_in_flight(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot)
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        status, _, body = gateway.ask("POST", "/v1/chat/completions", question(model="chat-large", max_tokens=100))
        answers.append((status, body))

    client = threading.Thread(target=ask)
    client.start()
    eventually(lambda: gateway.metric("weir_gateway_replica_in_flight") == 1)
    gateway.process.stop()
    client.join()
    assert answers[0][0] == 200
    assert gateway.process.exit_code == 0
    with pytest.raises(OSError):
        socket.create_connection((LOOPBACK, gateway.port), timeout=1)


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", answer)]


def chunked(body: bytes, trailer: str = "", auth: str = AUTH, *headers: str) -> bytes:
    lines = "".join(
        f"{header}\r\n" for header in ("host: x", "connection: close", "transfer-encoding: chunked", *headers)
    )
    head = f"POST /v1/chat/completions HTTP/1.1\r\n{auth}{lines}\r\n".encode()
    return head + b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailer.encode())


def test_a_trailer_is_no_header(gateway: Gateway) -> None:
    assert statuses(speak(gateway, chunked(question(), AUTH, auth=""))) == [401]
    assert statuses(speak(gateway, chunked(question(), "authorization: Bearer nobodys\r\n"))) == [200]


@pytest.mark.parametrize("pieces", [1, 2])
def test_an_upgrade_that_is_not_made_loses_nothing(gateway: Gateway, pieces: int) -> None:
    """Java's HTTP client requests HTTP/2 with each request."""
    wanted = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__")
    raw = request(question(), *wanted) + request(question(), "connection: close")
    head = raw.index(b"\r\n\r\n") + 4
    assert statuses(speak(gateway, *((raw,) if pieces == 1 else (raw[:head], raw[head:])))) == [200, 200]


def test_the_body_of_an_upgrade_is_not_taken_for_a_request(gateway: Gateway) -> None:
    inner = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    head = f"POST /nothing HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: h2c\r\ncontent-length: {len(inner)}\r\n\r\n"
    assert statuses(speak(gateway, head.encode(), inner)) == [401]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\nauthorization: a\r\nauthorization: b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-api-key: a\r\nx-api-key: b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length : 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: a\r\n b\r\n\r\n", 400),  # obs-fold
        (b"GET / HTTP/1.1\nhost: x\n\n", 400),  # bare LF
        (b"GET / HTTP/1.1\r\nhost: x\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\n\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: a\rb\r\n\r\n", 400),  # bare CR
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET /\r\n\r\n", 505),  # HTTP/0.9
        (b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: x\r\n\r\n", 405),
    ],
)
def test_what_two_readers_may_read_differently_is_refused(gateway: Gateway, raw: bytes, status: int) -> None:
    answer = speak(gateway, raw)
    assert statuses(answer) == [status]
    assert b"\r\nconnection: close\r\n" in answer


def test_requests_before_a_broken_one_are_answered_and_what_follows_a_goodbye_is_ignored(gateway: Gateway) -> None:
    assert statuses(speak(gateway, request(question()) + b"not http at all\r\n\r\n")) == [200, 400]
    assert statuses(speak(gateway, request(question(), "connection: close") + request(question()))) == [200]


def test_each_answer_is_framed_as_its_own_request_can_read(gateway: Gateway) -> None:
    old = b"GET /healthz HTTP/1.0\r\n\r\n"
    first, _, second = speak(gateway, request(question(stream=True)) + old).partition(b"data: [DONE]\n\n")
    assert b"transfer-encoding: chunked" in first
    assert second.startswith(b"\r\n0\r\n\r\nHTTP/1.1 200 ")


def test_the_answer_to_a_head_request_does_not_make_the_next_one_empty(gateway: Gateway) -> None:
    answer = speak(gateway, b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\nnot http at all\r\n\r\n")
    assert statuses(answer) == [200, 400]
    assert answer.endswith(b"}}")


def test_an_answer_does_not_repeat_at_length_what_was_sent(gateway: Gateway) -> None:
    assert len(gateway.ask("GET", "/v1/" + "x" * 50_000, None)[2]) < 1000
    for body in (question(model="x" * 50_000), question(**{"x" * 50_000: 1})):
        status, _, text = gateway.ask("POST", "/v1/chat/completions", body)
        assert status in (400, 404)
        assert len(text) < 2000


def test_answers_in_one_trace_have_ids_of_their_own(gateway: Gateway) -> None:
    headers = {"traceparent": f"00-{'12' * 16}-{'34' * 8}-01"}
    answers = [gateway.ask("POST", "/v1/chat/completions", question(), headers=headers) for _ in range(2)]
    assert len({json.loads(body)["id"] for _, _, body in answers}) == 2
    assert {headers["x-request-id"] for _, headers, _ in answers} == {"12" * 16}


def test_pages_of_allowed_origins_may_call_the_api_from_a_browser(
    start_gateway: StartGateway, snapshot: Snapshot
) -> None:
    gateway = start_gateway(snapshot, cors_origins="https://app.test, http://localhost:3000")

    def ask(origin: str, *lines: str, method: str = "OPTIONS", path: str = "/v1/chat/completions") -> bytes:
        sent = (
            f"{method} {path} HTTP/1.1",
            "host: localhost",
            f"origin: {origin}",
            "connection: close",
            *lines,
            "",
            "",
        )
        return speak(gateway, "\r\n".join(sent).encode()).lower()

    wanted = ("access-control-request-method: POST", "access-control-request-headers: authorization,x-stainless-lang")
    preflight = ask("https://app.test", *wanted)
    assert preflight.startswith(b"http/1.1 200")
    for field in (
        b"allow-origin: https://app.test",
        b"allow-headers: authorization,x-stainless-lang",
        b"allow-methods: get, post, delete",
    ):
        assert b"\r\naccess-control-" + field + b"\r\n" in preflight
    refused = ask("http://localhost:3000", method="GET", path="/v1/models")
    assert refused.startswith(b"http/1.1 401"), "the page reads why"
    assert b"\r\naccess-control-allow-origin: http://localhost:3000\r\n" in refused
    stream = speak(gateway, request(question(stream=True), "origin: https://app.test", "connection: close"))
    assert b"\r\naccess-control-allow-origin: https://app.test\r\n" in stream
    assert b"access-control" not in ask("https://other.test", *wanted)
    assert b"access-control" not in ask("https://app.test", method="GET", path="/metrics")
    ahead = b"GET /v1/models HTTP/1.1\r\nhost: x\r\norigin: https://app.test\r\n\r\n"
    assert (
        speak(gateway, ahead + b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").count(
            b"allow-origin"
        )
        == 1
    )
