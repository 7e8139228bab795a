import random
import socket
from collections import deque
from pathlib import Path

import pytest

from deploy.local import ports


def test_ports_are_free_different_and_given_once() -> None:
    given = [port for _ in range(20) for port in ports.free_ports(5)]
    assert len(set(given)) == 100
    assert all(ports.is_free(port) for port in given)


def test_no_outgoing_connection_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(ports.free_ports(50)) < int(ports.OUTGOING.read_text().split()[0])
    file = tmp_path / "range"
    monkeypatch.setattr(ports, "OUTGOING", file)
    assert max(ports.free_ports(50)) < 32_768
    file.write_text("15000\t61000\n")
    assert max(ports.free_ports(50)) < 15_000
    file.write_text("1024\t61000\n")
    assert min(ports.free_ports(50)) >= 1_024


def test_processes_with_a_part_each_never_choose_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    for number in range(4):
        monkeypatch.setattr(ports, "_part", (number, 4))
        chosen.append(set(ports.free_ports(300)))
    assert len(set().union(*chosen)) == 1_200


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        assert not ports.is_free(server.getsockname()[1])


def test_a_port_that_a_launcher_holds_is_for_its_own_server_alone() -> None:
    """From before that listens: two dashboards that started at once shared a port."""
    port = ports.free_port()
    with ports.reserved(port):
        assert not ports.is_free(port)
        with pytest.raises(OSError, match="in use"), ports.reserved(port):
            pass
        with socket.create_server((ports.LOOPBACK, port), reuse_port=True) as server:  # as granian listens
            for _ in range(20):
                with socket.create_connection((ports.LOOPBACK, port), timeout=10):
                    server.accept()[0].close()
    with ports.reserved(port):
        pass


def test_processes_that_begin_alike_do_not_choose_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis and others seed Python's own generator, in every process of a test run with the same number."""
    chosen = []
    for _ in range(2):
        monkeypatch.setattr(ports, "_given", deque(maxlen=1_000))
        random.seed(0)
        chosen.append(ports.free_ports(5))
    assert chosen[0] != chosen[1]
