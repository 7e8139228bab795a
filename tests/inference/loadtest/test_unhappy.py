"""Badly behaved clients: a server that withstands them all, and one with many faults, each of which is noticed by its client."""

import signal
import subprocess
from pathlib import Path

import pytest

from deploy.local.ports import free_ports
from inference.loadtest.core.result import read
from inference.loadtest.core.samples import Sample
from inference.loadtest.core.unhappy import calm_of, harm, is_error, leak
from inference.loadtest.options import KEY_VARIABLE
from inference.loadtest.unhappy.cases import CASES
from tests.support.servers.delayed import FAULTS, delayed
from tests.support.start import Start
from tests.support.weir_command import bench, command

KEY = "sk-the-right-one"
TOGETHER = (
    "leaks_mid_stream", "fails_at_what_is_too_long", "fails_at_what_is_no_json", "takes_what_is_no_utf8", "closes_at_wrong_types",
    "takes_any_model", "takes_any_key", "cuts_answers",
)  # fmt: skip
"""Faults of which none hides another. `make bench ONLY=weirbench` has each alone."""


@pytest.mark.parametrize("faults", [(), TOGETHER])
def test_each_fault_is_noticed_by_its_client_and_a_server_without_any_has_none(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: tuple[str, ...]
) -> None:
    [port] = free_ports(1)
    start(delayed(port, first_ms=(200.0, 250.0), gap_ms=1.0, tokens=600, key=KEY, faults=faults))
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    cases = ("--unhappy",) if not faults else ("--unhappy", ",".join({FAULTS[fault] for fault in faults}))
    done = bench(port, *cases, "--patience", "500ms", "--rate", "20", "--out", str(tmp_path / "r.json"))
    report = read((tmp_path / "r.json").read_bytes()).unhappy
    assert report is not None and report.leaks_known, done.stderr
    noticed = {case.name: case.faults for case in report.cases if case.faults}
    if faults:
        assert set(noticed) == {FAULTS[fault] for fault in faults} and done.returncode in (1, 3)
    else:  # but what a busy machine does to those beside
        assert not [fault for said in noticed.values() for fault in said if "beside it waited" not in fault]
    assert KEY not in (tmp_path / "r.json").read_text()


def test_ctrl_c_ends_the_clients_with_what_was_seen_of_them(start: Start, tmp_path: Path) -> None:
    [port] = free_ports(1)
    start(delayed(port))
    given = ("--unhappy", "--patience", "500ms", "--rate", "20", "--out", str(tmp_path / "r.json"))
    running = subprocess.Popen(command(port, *given), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "leave_before_first_token" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    result = read((tmp_path / "r.json").read_bytes())
    assert running.returncode == 130 and "CUT SHORT" in said
    assert result.unhappy is not None and 1 <= len(result.unhappy.cases) < len(CASES)


def test_those_beside_are_harmed_by_failures_and_by_waits_that_they_did_not_have_before() -> None:
    calm = calm_of([Sample(n, float(n), first_s=n + 0.1, ended_s=n + 0.2) for n in range(20)], 0.0, patience_s=2.0)
    assert calm.limit_s == pytest.approx(0.8)
    good = Sample(0, 10.0, sent_s=10.0, first_s=10.1, last_s=10.2, ended_s=10.2)
    assert harm(calm, [good], 12.0) == []
    failed, slow = Sample(1, 10.0, ended_s=10.1, failure="http_500"), Sample(2, 10.0, first_s=11.0, ended_s=11.1)
    waiting, silent = Sample(3, 10.0, sent_s=10.0), Sample(4, 10.0, first_s=10.1, last_s=10.3)
    assert harm(calm, [good, failed], 12.0) == ["1 of 2 good requests beside it failed: 1 http_500"]
    for late in (slow, waiting, silent):
        assert "1 of 2 good requests beside it waited" in harm(calm, [good, late], 12.0)[0]
    assert harm(calm, [waiting, silent], 10.4) == []


def test_a_leak_is_what_stays_and_what_is_not_known_is_none() -> None:
    assert leak(2.0, 2.0, 3.0) == leak(2.0, 1.0, 3.0) == leak(None, 4.0, 3.0) == leak(2.0, None, 3.0) == []
    assert "has 4 requests beside the good ones, 2 before" in leak(2.0, 4.0, 3.0)[0]


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (b'{"error": {"message": "x"}}', True),
        (b'{"detail": "x"}', True),
        (b"<h1>", False),
        (b'{"error": null}', False),
        (b"[1]", False),
    ],
)
def test_an_error_is_an_object_that_says_something(body: bytes, right: bool) -> None:
    assert is_error(body) is right
