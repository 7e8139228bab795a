"""Watches that end in the middle of an answer."""

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
import yaml

from controlplane.fleet.clusters.errors import UnreachableError
from controlplane.fleet.clusters.kubernetes import confirm, watches
from controlplane.fleet.clusters.kubernetes.client import Api, connect
from controlplane.fleet.clusters.kubernetes.objects import Metadata
from controlplane.fleet.clusters.kubernetes.watch import Watched
from controlplane.sources.follow import Follower
from tests.support.cluster.authority import Authority
from tests.support.wait import eventually

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
LIST = b'{"metadata":{"resourceVersion":"1"},"items":[]}'


class _Pod(msgspec.Struct):
    metadata: Metadata


Answer = Callable[[ssl.SSLSocket, bytes], None]


def chunk(line: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(line), line)


@contextmanager
def serving(folder: Path, answer: Answer | None) -> Iterator[Api]:
    """An API server over TLS; `answer` gets each connection and the head of its request. None: each connection is ended at once."""
    chain, key = Authority(folder).issue("server", "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def take(plain: socket.socket) -> None:
        if answer is None:
            plain.recv(65_536)
            plain.close()
            return
        with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
            answer(connection, connection.recv(65_536))

    def listen() -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=take, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    server = f"https://127.0.0.1:{listener.getsockname()[1]}"
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
                "users": [{"name": "u", "user": {"token": "secret"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    api = Api(partial(connect, path))
    try:
        yield api
    finally:
        api.close()
        listener.close()


def test_lines_that_are_cut_over_tls_hold_nothing_that_the_server_did_not_say(tmp_path: Path) -> None:
    """A TLS socket that another thread shuts down reads on without TLS: what has come would be taken for text."""
    read_first, sent, ended = threading.Event(), threading.Event(), threading.Event()
    second = b"x" * 4000
    at = len(chunk(b"one\n")) + 20  # in the middle of the second

    def two_lines(connection: ssl.SSLSocket, _: bytes) -> None:
        text = chunk(b"one\n") + chunk(second + b"\n")
        connection.sendall(HEAD + text[:at])
        read_first.wait(60)
        connection.sendall(text[at:])
        sent.set()
        ended.wait(60)

    rest: list[bytes] = []
    with serving(tmp_path, two_lines) as api, suppress(UnreachableError), api.lines("/x", {}, 60) as lines:
        here = iter(lines)
        assert next(here) == b"one"
        read_first.set()
        assert sent.wait(60)
        lines.cut()
        ended.set()
        for line in here:
            rest.append(line)
    assert set(rest) <= {second}


def test_a_balancer_without_a_server_behind_it_is_no_matter_of_certificates(tmp_path: Path) -> None:
    with serving(tmp_path, None) as api, pytest.raises(UnreachableError) as raised:
        api.find("/x", Metadata)
    assert "see whether the API server behind it runs" in str(raised.value)
    assert "certificate" not in str(raised.value)


@pytest.mark.parametrize("line", [b"garbage\n", b'{"type":"ADDED","object":{"metadata":3}}\n'])
def test_an_event_that_cannot_be_read_is_said_and_the_watch_begins_anew(tmp_path: Path, line: bytes) -> None:
    watches = 0
    healed = threading.Event()

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        nonlocal watches
        if b"watch=1" not in request:
            connection.sendall(HEAD + chunk(LIST) + b"0\r\n\r\n")
            return
        watches += 1
        connection.sendall(HEAD + chunk(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}\n'))
        if not healed.is_set():
            connection.sendall(chunk(line))
        connection.recv(1)

    with serving(tmp_path, answer) as api:
        watched = Watched(api, "/api/v1/pods", _Pod)
        watched.start()
        try:
            eventually(lambda: watched.problem.startswith("WATCH /api/v1/pods: an event cannot be read ("))
            before = watches
            healed.set()
            eventually(lambda: watches > before and watched.connected and not watched.problem)
        finally:
            watched.stop()
            watched.thread.join(120)
        assert not watched.thread.is_alive()


@pytest.mark.parametrize("reader", [watches.Watches, Follower])
def test_a_store_that_was_set_back_is_listed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: type[watches.Watches] | type[Follower]
) -> None:
    """A watch that goes on where the restored history has not come yet says nothing, and the server answers all the same."""
    monkeypatch.setattr(confirm, "CONFIRM_EVERY_S", 0.05)
    revision, listed = 500, Counter[bytes]()

    def answer(connection: ssl.SSLSocket, request: bytes) -> None:
        path, _, query = request.split(b" ")[1].partition(b"?")
        if b"watch=1" not in query:
            listed[path] += b"limit=1&" not in query + b"&"
            connection.sendall(
                HEAD + chunk(b'{"metadata":{"resourceVersion":"%d"},"items":[]}' % revision) + b"0\r\n\r\n"
            )
            return
        before = revision
        connection.sendall(HEAD)
        while revision == before:  # what is new is not heard of
            connection.settimeout(0.05)
            with suppress(TimeoutError):
                connection.recv(1)
                return

    with serving(tmp_path, answer) as api:
        watched = reader(api, "eu")
        watched.start()
        try:
            eventually(lambda: not watched.problem and watched.confirmation.revision == 500)
            eventually(lambda: set(listed.values()) == {1}, lambda: listed)
            revision = 600
            eventually(lambda: watched.confirmation.revision == 600)
            assert set(listed.values()) == {1}
            revision = 400
            eventually(lambda: set(listed.values()) == {2} and not watched.problem, lambda: listed)
        finally:
            watched.stop()
            watched.confirmation.join(60)
            assert not watched.confirmation.is_alive()
