"""The gateway drains on SIGTERM, visibly to balancers, and ends in time."""

import asyncio
import http.client
import json
import socket
from pathlib import Path

import pytest

from deploy.local.ports import LOOPBACK
from inference.config import ConfigError, load
from inference.contract.snapshot import Snapshot
from tests.support.gateway.balancer import MAX_TO_NOTICE_S, Balancer
from tests.support.gateway.process import KEY, LARGE, SMALL, Gateway, StartGateway, gateway_command, unique
from tests.support.soak import sized
from tests.support.start import Start
from tests.support.wait import WITHIN_S, eventually, eventually_async

USERS, THINKING_S = sized(4, soak=8), sized(0.02, soak=0.0)
ASK = json.dumps({"model": SMALL, "messages": unique(), "max_tokens": 2})


def ask(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/chat/completions", ASK, {"Authorization": f"Bearer {KEY}"})
    response = connection.getresponse()
    response.read()
    return response


def test_it_reports_draining_before_it_stops_listening(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, lame_duck_ms="2000")
    old = http.client.HTTPConnection(LOOPBACK, gateway.port, timeout=120)
    assert ask(old).getheader("connection") is None
    gateway.process.terminate()
    eventually(lambda: gateway.get("/readyz", key="")[0] == 503)  # over a new connection each time
    assert gateway.ready()["reason"] == "draining"
    for connection in (old, http.client.HTTPConnection(LOOPBACK, gateway.port, timeout=120)):
        response = ask(connection)
        assert (response.status, response.getheader("connection")) == (200, "close")
    eventually(lambda: gateway.process.exit_code == 0)
    with pytest.raises(OSError):
        socket.create_connection((LOOPBACK, gateway.port), timeout=1)


def test_an_answer_that_is_read_slowly_is_not_cut(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot)
    body = json.dumps({"model": LARGE, "messages": unique(), "max_tokens": 2000, "stream": True, "temperature": 0})
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((LOOPBACK, gateway.port))
        connection.settimeout(20)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall((head + body).encode())
        received = connection.recv(100)
        eventually(lambda: gateway.metric("weir_gateway_replica_in_flight") == 0)  # answered, and not read yet
        gateway.process.terminate()
        while data := connection.recv(4096):
            received += data
    assert received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    eventually(lambda: gateway.process.exit_code == 0)


def test_a_second_signal_ends_it_at_once(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    gateway = start_gateway(snapshot, lame_duck_ms="20000", drain_timeout_ms="3000")
    gateway.process.terminate()
    eventually(lambda: gateway.get("/readyz", key="")[0] == 503)
    gateway.process.terminate()
    eventually(lambda: gateway.process.exit_code == 0)


@pytest.mark.parametrize("variable", ["WEIR_LAME_DUCK_MS", "WEIR_DRAIN_TIMEOUT_MS"])
def test_an_end_that_would_be_cut_short_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    load()
    monkeypatch.setenv(variable, "25000")
    with pytest.raises(ConfigError, match=f"{variable}=25000.*WEIR_TERMINATION_GRACE_MS=30000.*lower the first two"):
        load()
    monkeypatch.setenv("WEIR_TERMINATION_GRACE_MS", "60000")
    load()


async def test_a_rolling_restart_fails_nobody(start: Start, snapshot: Snapshot, tmp_path: Path) -> None:
    gateways: list[Gateway] = []
    lame_duck_ms = f"{1000 * (MAX_TO_NOTICE_S + 1):.0f}"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        command, port, path = gateway_command(tmp_path / name, snapshot, lame_duck_ms=lame_duck_ms)
        process = start(command)
        gateways.append(Gateway(port, path, process, Path(str(process.log))))
    balancer = await Balancer(*(gateway.port for gateway in gateways)).start()
    await eventually_async(lambda: all(balancer.ready.values()))
    stop = asyncio.Event()
    answered = 0

    async def user(number: int) -> None:
        """As the official client does it: a pool of connections, kept alive; half of them read streams."""
        nonlocal answered
        async with Gateway(balancer.port, tmp_path, gateways[0].process, tmp_path).client() as client:
            while not stop.is_set():
                if number % 2:
                    stream = await client.chat.completions.create(
                        model=SMALL, messages=unique(), max_tokens=20, stream=True
                    )
                    chunks = [chunk async for chunk in stream]
                    assert chunks[-1].choices[0].finish_reason
                else:
                    await client.chat.completions.create(model=SMALL, messages=unique(), max_tokens=2)
                answered += 1
                await asyncio.sleep(THINKING_S)

    users = [asyncio.ensure_future(user(number)) for number in range(USERS)]
    for gateway in gateways:
        mark = answered
        await eventually_async(lambda: answered > mark + 20)  # noqa: B023
        gateway.process.terminate()
        await eventually_async(lambda: gateway.process.exit_code == 0)  # noqa: B023
        assert not balancer.ready[gateway.port]
        mark = answered
        await eventually_async(lambda: answered > mark + 20)  # noqa: B023  (by the other)
        await asyncio.to_thread(lambda: gateway.process.start().wait_ready())  # noqa: B023
        await eventually_async(lambda: balancer.ready[gateway.port])  # noqa: B023
    stop.set()
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*users)  # raises the error of any of them
    await balancer.stop()
    assert balancer.refused == 0
