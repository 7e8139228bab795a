"""TLS to clients: certificates, versions, and the bounds of connections that have not shaken hands."""

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from deploy.local.ports import LOOPBACK
from inference.config import ConfigError, load
from inference.contract.snapshot import Snapshot
from tests.support.gateway.process import KEY, SMALL, Gateway, unique
from tests.support.gateway.sockets import AUTH, question, request
from tests.support.gateway.tls import Issued, issue, tls_gateway
from tests.support.start import Start
from tests.support.wait import eventually

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
Begin = Callable[..., Gateway]
IN_THE_CLEAR = 'weir_gateway_connection_in_the_clear{to="telemetry",where="192.0.2.1:4318"}'


@pytest.fixture
def issued(tmp_path: Path) -> Issued:
    return issue(tmp_path)


@pytest.fixture
def begin(start: Start, tmp_path: Path, issued: Issued) -> Iterator[Begin]:
    running: list[Gateway] = []

    def healthy(port: int) -> bool:
        return speak(port, issued.trusting(), LAST).startswith(b"HTTP/1.1 200")

    def run(snapshot: Snapshot | None = None, **settings: str) -> Gateway:
        running.append(tls_gateway(start, tmp_path, issued, snapshot, healthy, **settings))
        return running[-1]

    yield run
    for gateway in running:
        gateway.end_at_once()


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((LOOPBACK, port), timeout=120)
    try:
        return context.wrap_socket(plain, server_hostname="localhost")
    except BaseException:
        plain.close()
        raise


def speak(port: int, context: ssl.SSLContext, *parts: bytes) -> bytes:
    """Everything that comes back until the gateway closes, which it has to do in TLS's way too."""
    with connect(port, context) as connection:
        for part in parts:
            connection.sendall(part)
        received = b""
        while data := connection.recv(65536):
            received += data
        return received


def metric(port: int, context: ssl.SSLContext, name: str) -> float:
    page = speak(port, context, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").decode()
    return float(next(line for line in page.splitlines() if line.startswith(f"{name} ")).split()[1])


async def test_the_official_client_speaks_tls(begin: Begin, issued: Issued, snapshot: Snapshot) -> None:
    gateway = begin(snapshot)
    connections = DefaultAsyncHttpxClient(verify=issued.trusting())
    async with AsyncOpenAI(
        base_url=f"https://localhost:{gateway.port}/v1", api_key=KEY, http_client=connections
    ) as client:
        whole = await client.chat.completions.create(model=SMALL, messages=unique(), max_tokens=3)
        assert whole.choices[0].message.content
        stream = await client.chat.completions.create(model=SMALL, messages=unique(), max_tokens=3, stream=True)
        assert [chunk async for chunk in stream][-1].choices[0].finish_reason


@pytest.mark.parametrize(("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], None)])
def test_it_speaks_tls_1_2_and_1_3_and_names_the_protocol(
    begin: Begin, issued: Issued, offered: list[str], chosen: str | None
) -> None:
    gateway = begin()
    for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
        context = issued.trusting(maximum_version=version)
        context.set_alpn_protocols(offered)
        with connect(gateway.port, context) as connection:
            assert (connection.version(), connection.selected_alpn_protocol()) == (name, chosen)
    old = issued.trusting(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
        connect(gateway.port, old)


def test_a_new_certificate_is_used_without_a_restart(begin: Begin, issued: Issued, tmp_path: Path) -> None:
    gateway = begin()
    open_connection = connect(gateway.port, issued.trusting())

    def serial() -> int:
        anyone = ssl.create_default_context(cafile=str(issued.certificate))
        anyone.check_hostname = False
        try:
            with connect(gateway.port, anyone) as connection:
                return int(str((connection.getpeercert() or {})["serialNumber"]), 16)
        except ssl.SSLCertVerificationError:
            return 0  # still the one before

    good_key = issued.key.read_bytes()
    issued.key.write_bytes(b"half of a")
    eventually(lambda: "certificate.refused" in gateway.log.read_text())
    issued.key.write_bytes(good_key)
    assert serial() == issued.serial
    new = issue(tmp_path)
    eventually(lambda: serial() == new.serial)
    open_connection.sendall(HEALTH)
    assert open_connection.recv(100).startswith(b"HTTP/1.1 200")
    open_connection.close()


def test_clients_may_have_to_show_a_certificate(start: Start, tmp_path: Path, issued: Issued) -> None:
    own, strangers = issue(tmp_path, "client"), issue(tmp_path, "stranger")

    def context(of: Issued | None) -> ssl.SSLContext:
        made = issued.trusting()
        if of is not None:
            made.load_cert_chain(of.certificate, of.key)
        return made

    def ready(port: int) -> bool:
        return speak(port, context(own), LAST).startswith(b"HTTP/1.1 200")

    gateway = tls_gateway(start, tmp_path, issued, None, ready, tls_client_ca=str(own.certificate))
    for other in (None, strangers):
        with pytest.raises(OSError):
            assert speak(gateway.port, context(other), LAST) == b""
            raise ConnectionResetError  # closed without an answer
    gateway.end_at_once()


def test_what_a_gateway_says_in_the_clear_is_logged_and_counted(begin: Begin, issued: Issued) -> None:
    gateway = begin(otlp_endpoint="http://192.0.2.1:4318")
    assert "connection.in_the_clear" in gateway.log.read_text()
    assert metric(gateway.port, issued.trusting(), IN_THE_CLEAR) == 1


def test_a_certificate_that_has_expired_is_served_and_said(start: Start, tmp_path: Path) -> None:
    issued = issue(tmp_path, valid=(timedelta(days=-2), timedelta(days=-1)))
    careless = ssl.create_default_context()
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
    gateway = tls_gateway(
        start, tmp_path, issued, None, lambda port: speak(port, careless, LAST).startswith(b"HTTP/1.1 200")
    )
    assert gateway.log.read_text().count("certificate.not_valid_for_long") == 1
    page = speak(gateway.port, careless, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert b'weir_gateway_certificate_fault{reason="expired on ' in page
    gateway.end_at_once()


def test_who_does_not_shake_hands_cannot_take_all_connections(begin: Begin, issued: Issued) -> None:
    gateway = begin(max_connections="16", read_timeout_ms="20000")
    files = psutil.Process(gateway.process.pid).num_fds()
    with contextlib.ExitStack() as stack:
        for number in range(200):
            silent = stack.enter_context(socket.create_connection((LOOPBACK, gateway.port), timeout=120))
            silent.sendall(b"\x16\x03\x01" if number % 2 else b"")
        assert speak(gateway.port, issued.trusting(), LAST).startswith(b"HTTP/1.1 200")
        assert psutil.Process(gateway.process.pid).num_fds() < files + 40
        assert metric(gateway.port, issued.trusting(), "weir_gateway_connections_evicted_total") > 100
    eventually(lambda: psutil.Process(gateway.process.pid).num_fds() <= files + 1)


def test_a_slow_handshake_and_plain_http_are_ended(begin: Begin) -> None:
    gateway = begin(read_timeout_ms="500")
    for said in (b"", b"\x16", HEALTH):
        with socket.create_connection((LOOPBACK, gateway.port), timeout=120) as connection:
            connection.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""


def test_answers_arrive_whole_however_the_connection_ends(begin: Begin, issued: Issued, snapshot: Snapshot) -> None:
    gateway = begin(snapshot, max_body_bytes="2000")
    stream = speak(gateway.port, issued.trusting(), request(question(stream=True), version="1.0"))
    assert stream.endswith(b"data: [DONE]\n\n")
    with connect(gateway.port, issued.trusting()) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{AUTH}content-length: 3000000\r\n\r\n"
        connection.sendall(head.encode() + b"x" * 1_000_000)  # too much, and not all of it
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"}}")


def test_a_client_that_does_not_read_is_cut_off(begin: Begin, issued: Issued) -> None:
    gateway = begin(write_timeout_ms="1000")
    context = issued.trusting()
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect((LOOPBACK, gateway.port))
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.settimeout(0.2)
        until_cut = threading.Event()

        def flood() -> None:
            while not until_cut.is_set():
                try:
                    connection.sendall(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n" * 100)
                except TimeoutError:
                    continue  # it is not read from any more
                except OSError:
                    return

        flooding = threading.Thread(target=flood)
        flooding.start()
        eventually(lambda: metric(gateway.port, context, "weir_gateway_connections_unread_total") == 1)
        until_cut.set()
        flooding.join()


def test_a_certificate_without_a_key_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_TLS_CERTIFICATE", str(issue(tmp_path).certificate))
    with pytest.raises(ConfigError, match="set both WEIR_TLS_CERTIFICATE and WEIR_TLS_KEY"):
        load()
    command = [sys.executable, "-m", "inference"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
