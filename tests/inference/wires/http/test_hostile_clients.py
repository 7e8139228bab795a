"""What clients without a key make the gateway keep is bounded, and others are served meanwhile."""

import contextlib
import json
import socket
import time

import psutil
import pytest

from deploy.local.ports import LOOPBACK
from inference.contract.snapshot import Snapshot
from inference.wires.http.server import too_much
from tests.support.gateway.process import Gateway, StartGateway
from tests.support.gateway.sockets import question, request, speak
from tests.support.wait import eventually

READY = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"
MIB = 1 << 20


class NeverReads:
    """Sends requests ahead, some at a time, and does not read the answers."""

    def __init__(self, gateway: Gateway) -> None:
        self.socket = socket.socket()
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, 4096)
        self.socket.connect((LOOPBACK, gateway.port))
        self.socket.setblocking(False)
        self.stuck = 0  # times in a row that nothing could be sent

    def send(self) -> None:
        try:
            self.socket.send(READY * 6)
            self.stuck = 0
        except BlockingIOError:
            self.stuck += 1
        except OSError:
            self.stuck = 1000  # cut off


def healthy(gateway: Gateway) -> bool:
    return gateway.get("/healthz", key="")[0] == 200


def flood(gateway: Gateway, clients: list[NeverReads]) -> None:
    """Wait until none of them can send any more."""
    until = time.monotonic() + 60
    while any(client.stuck < 50 for client in clients):
        assert time.monotonic() < until, "it went on reading requests though their answers are not read"
        for client in clients:
            client.send()
        assert healthy(gateway)


def test_a_client_that_does_not_read_is_not_read_from_and_then_cut_off(
    start_gateway: StartGateway, snapshot: Snapshot
) -> None:
    gateway = start_gateway(snapshot, write_timeout_ms="1000")
    process = psutil.Process(gateway.process.pid)
    before = process.memory_info().rss
    clients = [NeverReads(gateway) for _ in range(10)]
    flood(gateway, clients)
    eventually(lambda: gateway.metric("weir_gateway_connections_unread_total") == len(clients))
    assert process.memory_info().rss - before < 20 * MIB
    assert gateway.metric("weir_gateway_connections") == 1  # the one that asks


def test_the_end_does_not_wait_for_who_does_not_read(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot)
    flood(gateway, [NeverReads(gateway) for _ in range(3)])
    gateway.process.stop()  # kills it after 10 s
    assert gateway.process.exit_code == 0


def test_one_byte_at_a_time_is_too_slow(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, read_timeout_ms="500")
    with socket.create_connection((LOOPBACK, gateway.port), timeout=120) as connection:
        raw = iter(request(question()) * 10)
        with pytest.raises(OSError):
            for byte in raw:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
    eventually(lambda: gateway.metric("weir_gateway_connections_timed_out_total") == 1)


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n", b"x-a: b\r\n"),  # a million headers
        (b"GET / HTTP/1.1\r\nhost: x\r\nx-a: ", b"aaaaaaaa"),  # one without end
        (b"GET /", b"aaaaaaaa"),
        (b"", b"\r\n"),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-a: ",
            b"aaaaaaaa",
        ),  # a trailer without end
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x-a: b\r\n"),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;",
            b"aaaaaaaa",
        ),  # an extension without end
    ],
)
def test_what_has_no_end_is_refused(gateway: Gateway, begin: bytes, piece: bytes) -> None:
    answer = speak(gateway, begin, *[piece * 1000] * 500, until_closed=False)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_strangers_cannot_take_all_connections(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, max_connections="16")
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection((LOOPBACK, gateway.port), timeout=120))

        known = connect()
        known.sendall(request(question()))
        assert known.recv(65536).startswith(b"HTTP/1.1 200 ")
        for number in range(200):
            connect().sendall(b"GET" if number % 2 else b"")
        assert healthy(gateway)  # there is room for a new one, and who has shown a key keeps what it has
        known.sendall(request(question()))
        assert known.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert gateway.metric("weir_gateway_connections_evicted_total") > 0


def test_strangers_cannot_make_it_keep_more_than_their_part(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, max_buffered_bytes=str(MIB))
    body = question()
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection((LOOPBACK, gateway.port), timeout=120))

        known = connect()
        known.sendall(request(body))
        assert known.recv(65536).startswith(b"HTTP/1.1 200 ")
        padded = json.dumps({**json.loads(question()), "user": "x" * 50_000}).encode()
        known.sendall(request(padded)[:-1])
        for _ in range(30):
            with contextlib.suppress(OSError):
                connect().sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n" + b"x" * 59_000)
        eventually(lambda: gateway.metric("weir_gateway_connections_shed_total") > 0)
        assert gateway.metric("weir_gateway_buffered_bytes") < MIB / 2
        known.sendall(b"}")
        assert known.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_the_largest_strangers_are_cut_first() -> None:
    def cut(*sizes: tuple[str, bool, int]) -> list[str]:
        return too_much(sizes, 1000)

    assert cut(("a", False, 250), ("b", True, 750)) == []
    assert cut(("a", False, 100), ("b", False, 160), ("c", True, 700)) == ["b"]
    assert cut(("a", True, 600), ("b", True, 500), ("c", False, 10)) == ["c", "a"]
    assert cut() == []
