"""HTTP/1.1 as RFC 9110 and RFC 9112 demand it of a server: each case names its section.

The cases of h1spec (github.com/uNetworking/h1spec, http_test.ts) are among them.
"""

import contextlib
import re
import socket
import threading
from typing import NamedTuple

import pytest

from deploy.local.ports import LOOPBACK
from tests.support.gateway.process import Gateway
from tests.support.gateway.sockets import AUTH, question, request

LINE = b"GET /healthz HTTP/1.1\r\n"
HEALTH = LINE + b"host: x\r\n\r\n"
LAST = LINE + b"host: x\r\nconnection: close\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n" + AUTH.encode()


class Answer(NamedTuple):
    """One answer as a client reads it."""

    version: bytes
    status: int
    headers: dict[bytes, list[bytes]]
    body: bytes


def exchange(gateway: Gateway, raw: bytes, *, half_close: bool = False) -> bytes:
    """Send everything, and read until the gateway closes or leaves nothing more to be read."""
    with socket.create_connection((LOOPBACK, gateway.port), timeout=120) as connection:
        connection.sendall(raw)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received += data
        return received


def answers(received: bytes, *methods: str) -> list[Answer]:
    """Read answers strictly, by their own framing (RFC 9112, 6.3). `methods` are those of the requests; GET where missing."""
    out: list[Answer] = []
    while received:
        head, blank, rest = received.partition(b"\r\n\r\n")
        assert blank, f"no end of the head: {received!r}"
        status_line, *lines = head.split(b"\r\n")
        match = re.fullmatch(rb"HTTP/(1\.1) (\d{3}) ([\t\x20-\x7e]*)", status_line)
        assert match, status_line
        headers: dict[bytes, list[bytes]] = {}
        for line in lines:
            field = re.fullmatch(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t]*?)[ \t]*", line)
            assert field, f"not a field line: {line!r}"
            headers.setdefault(field[1].lower(), []).append(field[2])
        status = int(match[2])
        method = methods[len(out)] if len(out) < len(methods) else "GET"
        body, received = _body(status, method, headers, rest)
        out.append(Answer(match[1], status, headers, body))
    return out


def _body(status: int, method: str, headers: dict[bytes, list[bytes]], rest: bytes) -> tuple[bytes, bytes]:
    if method == "HEAD" or status < 200 or status in (204, 304):
        assert b"transfer-encoding" not in headers or method == "HEAD"
        return b"", rest
    if b"transfer-encoding" in headers:
        assert headers[b"transfer-encoding"] == [b"chunked"]
        assert b"content-length" not in headers
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            body += rest[:length]
            assert rest[length : length + 2] == b"\r\n"
            rest = rest[length + 2 :]
            if not length:
                return body, rest
    if b"content-length" not in headers:
        return rest, b""  # until the connection closes
    [length_text] = headers[b"content-length"]
    assert re.fullmatch(rb"\d+", length_text)
    length = int(length_text)
    assert len(rest) >= length, "shorter than it says"
    return rest[:length], rest[length:]


def statuses(gateway: Gateway, raw: bytes, *methods: str) -> list[int]:
    return [answer.status for answer in answers(exchange(gateway, raw), *methods)]


ACCEPTED = {
    "9112-2.2: an empty line before the request is ignored": b"\r\n" + LAST,
    "9112-2.2: several empty lines": b"\r\n\r\n" + LAST,
    "9112-3.2.2: the target in absolute form": b"GET http://x/healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    "9112-3.2.1: a query": b"GET /healthz?a=b&c HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    "9112-5.1: a field name in any case, a tab before its value": LINE + b"hoSt:\tx\r\nCONNECTION: Close\r\n\r\n",
    "9110-5.5: white space around a value": LINE + b"host: x\r\nconnection: \t close \t \r\n\r\n",
    "9110-5.5: an empty value": LINE + b"host: x\r\nempty:\r\nx-empty-too: \r\nconnection: close\r\n\r\n",
    "9110-5.5: obs-text in a value": LINE + b"host: x\r\nx-name: J\xc3\xbcrgen \xff\r\nconnection: close\r\n\r\n",
    "9110-5.1: unknown fields are ignored": LINE + b"host: x\r\nx!#$%&'*+.^_`|~9: y\r\nconnection: close\r\n\r\n",
    "9110-7.6.1: connection with several options": LINE + b"host: x\r\nconnection: te, close\r\n\r\n",
    "9110-9.3.1: GET with a body": LINE + b"host: x\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc",
    "9112-3.2: an empty host": LINE + b"host:\r\nconnection: close\r\n\r\n",
    "9112-2.3: HTTP/1.0 needs no host": b"GET /healthz HTTP/1.0\r\n\r\n",
}


@pytest.mark.parametrize("raw", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_allowed_is_served(gateway: Gateway, raw: bytes) -> None:
    [answer] = answers(exchange(gateway, raw))
    assert (answer.status, answer.body) == (200, b'{"status":"ok"}')


REFUSED = {
    "9112-3: no version": (b"GET / \r\n\r\n", {400, 505}),
    "9112-3: no target": (b"GET HTTP/1.1\r\nhost: x\r\n\r\n", {400, 505}),
    "9112-3: a space in the target": (b"GET /heal thz HTTP/1.1\r\nhost: x\r\n\r\n", {400, 505}),
    "9112-3: a control character in the target": (b"GET /heal\x01thz HTTP/1.1\r\nhost: x\r\n\r\n", {400}),
    "9112-3.1: a method in lower case": (b"get /healthz HTTP/1.1\r\nhost: x\r\n\r\n", {400, 405, 501}),
    "9112-3.1: a method that nobody knows": (b"BREW /healthz HTTP/1.1\r\nhost: x\r\n\r\n", {400, 405, 501}),
    "9112-2.2: text before the request": (b"Extra lineGET / HTTP/1.1\r\nhost: x\r\n\r\n", {400, 501}),
    "9112-2.2: a bare CR in the head": (LINE + b"host: x\r\n\rsome-header: test\r\n\r\n", {400}),
    "9112-2.2: white space before the first field": (LINE + b" host: x\r\n\r\n", {400}),
    "9112-2.2: a bare LF": (b"GET /healthz HTTP/1.1\nhost: x\n\n", {400}),
    "9112-2.3: version 9.9": (b"GET / HTTP/9.9\r\nhost: x\r\n\r\n", {400, 505}),
    "9112-2.3: version in lower case": (b"GET / http/1.1\r\nhost: x\r\n\r\n", {400}),
    "9113-3.4: the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5), {400}),
    "9113-3.4: a part of the preface": (b"PRI * HTTP/2.0\r\n", {400}),
    "9113-3.4: the preface of HTTP/2 with version 1.1": (b"PRI * HTTP/1.1\r\n\r\n", {400}),
    "9113-3.4: the preface of HTTP/2 with version 1.0": (b"PRI * HTTP/1.0\r\n\r\nSM\r\n", {400}),
    "9113-3.4: the preface of HTTP/2 with another target": (b"PRI / HTTP/1.1\r\n\r\n", {400}),
    "9112-3.2: no host": (LINE + b"connection: close\r\n\r\n", {400}),
    "9112-3.2: two hosts": (LINE + b"host: x\r\nhost: y\r\n\r\n", {400}),
    "9112-3.2: a host that is none": (LINE + b"host: a b\r\n\r\n", {400}),
    "9112-3.2: a host with a path": (LINE + b"host: x/y\r\n\r\n", {400}),
    "9112-5.1: a space before the colon": (LINE + b"host : x\r\n\r\n", {400}),
    "9112-5.2: a folded line": (LINE + b"host: x\r\nx-a: b\r\n c\r\n\r\n", {400}),
    "9110-5.1: a field name with a bracket": (LINE + b"host: x\r\nx-invalid[]: test\r\n\r\n", {400}),
    "9110-5.1: an empty field name": (LINE + b"host: x\r\n: test\r\n\r\n", {400}),
    "9110-5.1: a line without a colon": (LINE + b"host: x\r\nnonsense\r\n\r\n", {400}),
    "9110-5.5: a control character in a value": (LINE + b"host: x\r\nx-bad: test\x07\r\n\r\n", {400}),
    "9110-5.5: NUL in a value": (LINE + b"host: x\r\nx-bad: te\x00st\r\n\r\n", {400}),
    "9112-6.3: a negative length": (POST + b"content-length: -1234\r\n\r\n", {400}),
    "9112-6.3: a huge negative length": (POST + b"content-length: -123456789123456789123456789\r\n\r\n", {400}),
    "9112-6.3: a length that overflows": (POST + b"content-length: 99999999999999999999999999\r\n\r\n", {400, 413}),
    "9112-6.3: a length in words": (POST + b"content-length: abc\r\n\r\n", {400}),
    "9112-6.3: a length with a plus sign": (POST + b"content-length: +5\r\n\r\nhello", {400}),
    "9112-6.3: a length in hexadecimal": (POST + b"content-length: 0x5\r\n\r\nhello", {400}),
    "9112-6.3: a length with a space in it": (POST + b"content-length: 1 2\r\n\r\n", {400}),
    "9112-6.3: an empty length": (POST + b"content-length:\r\n\r\n", {400}),
    "9112-6.3: two lengths": (POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!", {400}),
    "9112-6.3: length and chunks": (POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", {400}),
    "9112-6.1: a coding that is not known": (POST + b"transfer-encoding: gzip\r\n\r\n", {400, 501}),
    "9112-6.1: chunked is not the last coding": (POST + b"transfer-encoding: chunked, gzip\r\n\r\n", {400, 501}),
    "9112-6.1: chunked twice": (POST + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", {400, 501}),
    "9112-6.1: a coding spelt with a vertical tab": (POST + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", {400}),
    "9112-7.1: a chunk's size in words": (POST + b"transfer-encoding: chunked\r\n\r\nxyz\r\n", {400}),
    "9112-7.1: a negative chunk": (POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n", {400}),
    "9112-7.1: a chunk's size with 0x": (POST + b"transfer-encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", {400}),
    "9112-7.1: a chunk's size that overflows": (
        POST + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        {400, 413},
    ),
    "9112-7.1: no end of line after a chunk": (POST + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", {400}),
    "9112-7.1: no size": (POST + b"transfer-encoding: chunked\r\n\r\n\r\n", {400}),
}


@pytest.mark.parametrize(("raw", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_allowed_is_refused_and_the_connection_ends(
    gateway: Gateway, raw: bytes, expected: set[int]
) -> None:
    [answer] = answers(exchange(gateway, raw))
    assert answer.status in expected
    assert answer.headers[b"connection"] == [b"close"]


@pytest.mark.parametrize("end", range(len(LAST) - 1), ids=lambda end: f"{end} bytes")
def test_nothing_is_answered_before_the_request_is_complete(gateway: Gateway, end: int) -> None:
    """The rest comes later, in a packet of its own; a client that stops there gets no answer."""
    assert exchange(gateway, LAST[:end], half_close=True) == b""


def test_a_request_may_be_cut_anywhere(gateway: Gateway) -> None:
    for cut in range(1, len(LAST)):
        with socket.create_connection((LOOPBACK, gateway.port), timeout=120) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(LAST[:cut])
            connection.sendall(LAST[cut:])
            received = b""
            while data := connection.recv(65536):
                received += data
        assert [answer.status for answer in answers(received)] == [200]


def test_connections_are_kept_by_version_and_by_wish(gateway: Gateway) -> None:
    """9112-9.3: 1.1 stays open unless a side says close; 1.0 closes."""
    assert statuses(gateway, HEALTH + HEALTH + LAST) == [200, 200, 200]
    old = b"GET /healthz HTTP/1.0\r\n\r\n"
    assert statuses(gateway, old + HEALTH) == [200]
    [answer] = answers(exchange(gateway, LAST + HEALTH))
    assert answer.headers[b"connection"] == [b"close"]


def test_http_1_0_may_ask_for_the_connection_to_be_kept(gateway: Gateway) -> None:
    """9112-C.2.2: then the answer has to say so, else the client of 1.0 expects it to close."""
    old = b"GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
    first, *_ = answers(exchange(gateway, old + LAST))
    assert first.headers.get(b"connection") in ([b"keep-alive"], [b"close"])


def test_head_has_the_fields_of_get_and_no_body(gateway: Gateway) -> None:
    """9110-9.3.2"""
    head, get = answers(exchange(gateway, HEALTH.replace(b"GET", b"HEAD") + LAST), "HEAD", "GET")
    assert head.body == b""
    assert head.headers[b"content-length"] == get.headers[b"content-length"]
    assert head.headers[b"content-type"] == get.headers[b"content-type"]


def test_an_expectation_is_met_before_the_body(gateway: Gateway) -> None:
    """9110-10.1.1"""
    body = question()
    raw = request(body, "expect: 100-continue", "connection: close")
    with socket.create_connection((LOOPBACK, gateway.port), timeout=120) as connection:
        connection.sendall(raw[: -len(body)])
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        received = b""
        while data := connection.recv(65536):
            received += data
    assert [answer.status for answer in answers(received, "POST")] == [200]


def test_chunks_may_have_extensions_trailers_and_any_case(gateway: Gateway) -> None:
    """9112-7.1"""
    body = question()
    first, rest = body[:10], body[10:]
    chunks = b"a;name=value;other\r\n%s\r\n%X\r\n%s\r\n000\r\nx-trailer: y\r\n\r\n" % (first, len(rest), rest)
    raw = POST + b"Transfer-Encoding: ChunKed\r\n\r\n" + chunks
    assert statuses(gateway, raw + LAST, "POST") == [200, 200]


def test_a_body_is_never_taken_for_a_request(gateway: Gateway) -> None:
    inner = b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n"
    raw = b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(inner) + inner
    assert statuses(gateway, raw + LAST, "POST") == [405, 200]


def test_a_wrong_method_says_which_are_allowed(gateway: Gateway) -> None:
    """9110-15.5.6"""
    for path, allowed in (("/healthz", b"GET, HEAD"), ("/v1/chat/completions", b"POST"), ("/metrics", b"GET, HEAD")):
        raw = f"DELETE {path} HTTP/1.1\r\nhost: x\r\n{AUTH}connection: close\r\n\r\n".encode()
        [answer] = answers(exchange(gateway, raw))
        assert (answer.status, answer.headers[b"allow"]) == (405, [allowed])


def test_a_stream_is_framed_and_can_be_followed_by_another_answer(gateway: Gateway) -> None:
    """9112-7"""
    stream, whole = answers(exchange(gateway, request(question(stream=True)) + LAST), "POST", "GET")
    assert stream.headers[b"transfer-encoding"] == [b"chunked"]
    assert stream.body.endswith(b"data: [DONE]\n\n")
    assert whole.status == 200


def test_every_answer_says_when_it_was_made(gateway: Gateway) -> None:
    """9110-6.6.1: an origin server with a clock sends Date."""
    [answer] = answers(exchange(gateway, LAST))
    [date] = answer.headers[b"date"]
    assert re.fullmatch(rb"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (\w{3}) \d{4} \d\d:\d\d:\d\d GMT", date)


def test_many_connections_speak_at_once(gateway: Gateway) -> None:
    got: list[list[int]] = []

    def ask() -> None:
        got.append(statuses(gateway, HEALTH * 5 + request(question()) + LAST, *["GET"] * 5, "POST"))

    asking = [threading.Thread(target=ask) for _ in range(10)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert got == [[200] * 7] * 10
