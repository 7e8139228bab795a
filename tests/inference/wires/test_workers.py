"""Several workers on one port: together they look like one gateway."""

import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from deploy.local.ports import LOOPBACK
from deploy.local.process import Managed, NotReadyError
from inference.contract.snapshot import Snapshot
from inference.workers.supervisor import START_S, is_hung
from tests.support.gateway.process import Gateway, StartGateway, gateway_command
from tests.support.gateway.sockets import question
from tests.support.start import Start
from tests.support.wait import eventually

REQUESTS = "weir_gateway_requests_total"


def workers(gateway: Gateway) -> list[psutil.Process]:
    return psutil.Process(gateway.process.pid).children()


def seen(gateway: Gateway, asks: int = 40) -> Counter[int]:
    """Which workers answer; each ask is a new connection."""
    return Counter(gateway.ready()["worker"] for _ in range(asks))


def both_serve(gateway: Gateway) -> bool:
    return gateway.metric("weir_gateway_workers_up") == 2


def holds(what: Callable[[], bool]) -> bool:
    """Whether it does; not where the connection went to a worker that has just died."""
    try:
        return what()
    except OSError:
        return False


@pytest.fixture(scope="module")
def pair(start_once: Start, tmp_path_factory: pytest.TempPathFactory, snapshot: Snapshot) -> Iterator[Gateway]:
    """Two workers, which the tests that ask for them share, from top to bottom."""
    command, port, path = gateway_command(
        tmp_path_factory.mktemp("pair"), snapshot, gateway_workers="2", worker_hung_ms="5000", lame_duck_ms="2000",
        log_format="json", log_level="info", redis_url="redis://:hunter2@127.0.0.1:1/0",
    )  # fmt: skip
    process = start_once(command)
    gateway = Gateway(port, path, process, Path(str(process.log)))
    eventually(lambda: both_serve(gateway))
    yield gateway
    gateway.end_at_once()


def test_their_metrics_are_one_page(pair: Gateway, snapshot: Snapshot) -> None:
    assert set(seen(pair)) == {0, 1}
    for _ in range(30):
        assert pair.ask("POST", "/v1/chat/completions", question())[0] == 200
    assert pair.metric(REQUESTS, model="chat-small") == 30
    assert pair.metric("weir_gateway_request_duration_seconds_count") == 30
    assert pair.metric("weir_gateway_request_duration_seconds_bucket", le="+Inf") == 30
    assert pair.metric("weir_gateway_policy_version") == snapshot.version
    assert pair.metric("weir_gateway_pool_replicas_up") == 2  # one in each of two pools, not in each worker


def test_a_worker_that_dies_is_replaced_and_its_counts_stay(pair: Gateway) -> None:
    before = pair.metric(REQUESTS)  # which every worker has reported now
    assert before
    victim = workers(pair)[0]
    victim.kill()
    eventually(lambda: holds(lambda: pair.metric("weir_gateway_worker_restarts_total") == 1))
    eventually(lambda: both_serve(pair))
    assert pair.metric(REQUESTS) == before
    assert victim.pid not in {worker.pid for worker in workers(pair)}
    assert pair.ask("POST", "/v1/chat/completions", question())[0] == 200


def test_a_worker_that_hangs_is_replaced(pair: Gateway) -> None:
    victim = workers(pair)[0]
    victim.suspend()
    eventually(lambda: not victim.is_running())
    eventually(lambda: "worker.hung" in pair.log.read_text())
    eventually(lambda: holds(lambda: both_serve(pair)))


def test_they_drain_together(pair: Gateway) -> None:
    pair.process.terminate()
    eventually(lambda: pair.get("/readyz", key="")[0] == 503)
    eventually(lambda: pair.log.read_text().count("gateway.drain_started") == 2)
    answers = [pair.ask("POST", "/v1/chat/completions", question()) for _ in range(10)]
    assert {(status, headers["connection"]) for status, headers, _ in answers} == {(200, "close")}
    eventually(lambda: pair.process.exit_code == 0)
    with pytest.raises(OSError):
        socket.create_connection((LOOPBACK, pair.port), timeout=1)


def test_every_process_writes_its_log_as_it_is_set_to(pair: Gateway) -> None:
    lines = [json.loads(line) for line in pair.log.read_text().splitlines()]
    assert {"gateway.started", "gateway.stopped", "worker.hung"} <= {line["event"] for line in lines}
    assert {line["level"] for line in lines} <= {"info", "warning", "error"}
    assert "hunter2" not in pair.log.read_text()


def test_a_worker_that_starts_slowly_is_let_start() -> None:
    assert is_hung(5.1, 5_000, serving=True) and not is_hung(4.9, 5_000, serving=True)
    assert not is_hung(START_S - 1, 5_000, serving=False) and is_hung(START_S + 1, 5_000, serving=False)
    assert not is_hung(START_S + 1, 300_000, serving=False), "no sooner than one that serves"


def test_signals_to_the_whole_group_do_not_hurry_it(start_gateway: StartGateway, snapshot: Snapshot) -> None:
    """As a terminal sends Ctrl-C: each process gets the signal, and workers are told by the supervisor too."""
    gateway = start_gateway(snapshot, gateway_workers="2", lame_duck_ms="2000")
    eventually(lambda: both_serve(gateway))
    os.killpg(gateway.process.pid, signal.SIGINT)
    eventually(lambda: gateway.log.read_text().count("gateway.drain_started") == 2)
    assert json.loads(gateway.get("/readyz", key="")[1])["reason"] == "draining"  # within the lame-duck time
    eventually(lambda: gateway.process.exit_code == 0)


def test_they_end_when_the_supervisor_is_killed(start_gateway: StartGateway) -> None:
    gateway = start_gateway(None, gateway_workers="2")
    eventually(lambda: gateway.log.read_text().count("gateway.started") == 2)
    children = workers(gateway)
    os.kill(gateway.process.pid, signal.SIGKILL)
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children)


@pytest.mark.parametrize("shared", [False, True], ids=["by another", "by workers of another gateway"])
def test_a_taken_port_ends_it_with_the_reason(tmp_path: Path, shared: bool) -> None:
    command, port, _ = gateway_command(tmp_path, None, gateway_workers="2")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        taken.bind((LOOPBACK, port))
        taken.listen()
        process = Managed(replace(command, ready=lambda: False), tmp_path / "gateway.log").start()
        with pytest.raises(NotReadyError):
            process.wait_ready()
    assert process.exit_code == 1
    assert "gateway.listen_failed" in process.log_tail()
