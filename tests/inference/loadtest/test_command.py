"""`weir bench` as people and CI jobs run it: the command against a server in a process of its own, and what its line may say."""

import asyncio
import http.client
import itertools
import json
import signal
import subprocess
from pathlib import Path

import pytest
from aiohttp import web
from pyarrow import parquet

from deploy.local.ports import LOOPBACK, free_ports
from inference.loadtest import options
from inference.loadtest.core.result import read, samples_of
from inference.loadtest.core.samples import SEND_LAG, Sample
from inference.loadtest.core.verdict import faults_of_client
from tests.support.http_server import serving
from tests.support.servers.delayed import MODEL, delayed
from tests.support.start import Start
from tests.support.wait import eventually
from tests.support.weir_command import bench, command

KEPT_UP_OR_LAGGED = (0, 3)
"""A test's machine may be too busy for a valid run. It is said then, and the rest is as it should be."""


@pytest.fixture(scope="module")
def port(start_once: Start) -> int:
    [port] = free_ports(1)
    start_once(delayed(port, first_ms=(20.0, 60.0), gap_ms=5.0, tokens=5))
    return port


def test_a_run_says_what_the_server_did_from_due_and_from_sent(port: int, tmp_path: Path) -> None:
    given = ["--load", "10-60:2s,60:1s", "--lengths", "50/4:1,100/9:1", "--seed", "5"]
    out = [f"--out=run.{form}" for form in ("json", "csv", "parquet")]
    done = bench(port, *given, *out, "--objective", "p50 e2e <= 1m", cwd=tmp_path)
    assert done.returncode in KEPT_UP_OR_LAGGED, done.stderr
    result = read((tmp_path / "run.json").read_bytes())
    assert result.valid is (done.returncode == 0) and result.valid is not ("INVALID" in done.stdout)
    assert (result.model, result.failures, result.objectives[0].kept) == (MODEL, {}, True)
    plan = options.read([f"http://{LOOPBACK}:1/v1", *given]).plan(5)
    samples = samples_of(result)
    assert [sample.due_s for sample in samples] == [round(row.due_s, 6) for row in plan]
    assert result.requests["good"] == result.requests["planned"] == len(plan)
    for sample, row in zip(samples, plan, strict=True):
        times = (sample.due_s, sample.sent_s, sample.first_s, sample.last_s, sample.ended_s)
        assert None not in times and list(times) == sorted(times)  # type: ignore[type-var]
        assert sample.output_tokens == sample.chunks == min(5, row.output_tokens)
        assert sample.first_s - sample.sent_s >= 0.02 and sample.ended_s - sample.sent_s >= 0.02 + 0.005 * (
            sample.chunks - 1
        )
    assert result.tokens["input"]["mean"] == pytest.approx(sum(row.input_tokens for row in plan) / len(plan), rel=0.02)
    table = (tmp_path / "run.csv").read_text().splitlines()
    assert len(table) == 1 + len(plan) and table[0].startswith("number,due_s,")
    assert parquet.read_table(tmp_path / "run.parquet").to_pydict() == result.samples


def test_turns_wait_for_answers_and_carry_the_conversation(port: int, tmp_path: Path) -> None:
    given = ("--rate", "10", "--duration", "1s", "--turns", "3", "--think", "10ms", "--lengths", "20/5")
    assert (
        bench(port, *given, "--prefix-tokens", "10", "--out", str(tmp_path / "r.json")).returncode in KEPT_UP_OR_LAGGED
    )
    samples = samples_of(read((tmp_path / "r.json").read_bytes()))
    assert len(samples) == 3 * len({sample.number for sample in samples})
    for before, after in itertools.pairwise(samples):
        if after.turn:
            assert after.number == before.number and after.due_s == pytest.approx(before.ended_s + 0.01, abs=1e-5)
            assert after.input_tokens > before.input_tokens + before.output_tokens


def test_whole_answers_have_no_first_token_and_what_the_server_does_not_count_is_unknown(
    port: int, tmp_path: Path
) -> None:
    given = ("--rate", "20", "--duration", "1s", "--no-stream", "--out", str(tmp_path / "r.json"))
    done = bench(port, *given)
    assert done.returncode in KEPT_UP_OR_LAGGED
    result = read((tmp_path / "r.json").read_bytes())
    assert result.latency_ms["ttft_from_due"] is result.latency_ms["tpot"] is None
    assert result.latency_ms["e2e_from_due"]["p50"] > 20
    assert result.tokens["output"]["mean"] is result.per_second["output_tokens"] is None
    assert "the server counts none" in done.stdout


@pytest.mark.parametrize(
    ("fault", "given", "code", "said"),
    [
        ("", ("--objective", "p95 ttft <= 1ms"), 1, "MISSED: p95 ttft <= 1ms, good 0.00%"),
        ("fails", (), 4, "http_500: "),
        ("fails", ("--max-failed", "1", "--objective", "p95 e2e <= 1h"), 1, "good 0.00%"),
    ],
)
def test_the_exit_status_is_for_ci(
    start: Start, port: int, fault: str, given: tuple[str, ...], code: int, said: str
) -> None:
    if fault:
        [port] = free_ports(1)
        start(delayed(port, faults=[fault]))
    done = bench(port, "--rate", "20", "--duration", "1s", *given)
    assert (
        said in done.stdout and done.returncode in (code, 3) and (done.returncode == code or "INVALID" in done.stdout)
    )


def test_a_search_that_ends_before_its_time_says_what_it_has_seen(port: int, tmp_path: Path) -> None:
    given = ("--search", "3s", "--rate", "30", "--lengths", "50/5", "--objective", "p90 ttft <= 10s")
    done = bench(port, *given, "--out", str(tmp_path / "r.json"))
    search = read((tmp_path / "r.json").read_bytes()).search
    assert search is not None and not search.confirmed and search.high is None and done.returncode in (1, 3)
    assert [step.requests_per_s for step in search.steps] == [30.0 * 2**n for n in range(len(search.steps))]
    assert "No rate was seen that loses" in done.stdout or "No rate kept" in done.stdout


def test_a_server_that_is_not_there_cannot_be_measured() -> None:
    [port] = free_ports(1)
    done = bench(port, "--model", "m")
    assert done.returncode == 4 and "cannot be measured: no_connection: cannot connect" in done.stderr


async def test_a_server_that_wants_a_key_is_said_to() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=401)

    async with serving(web.get("/v1/models", refuse)) as url:
        done = await asyncio.to_thread(bench, int(url.rpartition(":")[2]))
    assert done.returncode == 4 and "give a key by WEIR_BENCH_KEY or --key-file" in done.stderr


def test_ctrl_c_ends_a_run_with_what_was_measured(port: int, tmp_path: Path) -> None:
    given = ("--rate", "30", "--duration", "10m", "--out", str(tmp_path / "r.json"))
    before = logged(port)
    running = subprocess.Popen(command(port, *given), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: logged(port) > before + 5)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    result = read((tmp_path / "r.json").read_bytes())
    assert running.returncode == 130 and "CUT SHORT" in said
    assert 0 < result.requests["good"] < result.requests["planned"] and result.requests["failed"] == 0


def logged(port: int) -> int:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    connection.request("GET", "/log")
    return len(json.loads(connection.getresponse().read()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ftp://x/v1", "does not begin with http"), ("http://x", "no path"), ("http://x/v1 --rate 0", "--rate is 0"),
        ("http://x/v1 --search", "needs an --objective"),
        ("http://x/v1 --no-stream --objective p90\tttft<=1s", "only objectives of e2e"),
        ("http://x/v1 --rate 5 --load 5:3s", "three ways"), ("http://x/v1 --load 5:3s --duration 3s", "leave --duration out"),
        ("http://x/v1 --duration 30", "30s, 5m"), ("http://x/v1 --objective fast", "p95 ttft <= 500ms"),
        ("http://x/v1 --out r.xls", ".json"),        ("http://x/v1 --out /none/r.json", "no folder"),
        ("http://x/v1 --extra [1]", "--extra"),
        ("http://x/v1 --key-file /none", "/none"),
        ("http://x/v1 --lengths 5", "PROMPT/ANSWER"), ("http://x/v1 --rat 5", "--rat"),
        ("http://x/v1 --arrivals constant --burstiness 2", "leave"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_understood_says_how_to_write_it(
    given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        options.read(given.split(" "))
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_the_key_is_in_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(options.KEY_VARIABLE, "sk-very-secret")
    wanted = options.read(["http://x/v1"])
    assert wanted.key == "sk-very-secret" and "secret" not in str(wanted.settings)


def test_a_client_that_lagged_was_busy_or_had_no_sockets_left_is_no_measure_of_the_server() -> None:
    def late(share: float) -> list[Sample]:
        return [
            Sample(n, float(n), sent_s=n + (0.006 if n >= 200 * (1 - share) else 0.001), ended_s=n + 1.0)
            for n in range(200)
        ]

    assert faults_of_client(late(0.005), [0.0], 0.8) == []
    assert ["late at the 99th" in fault for fault in faults_of_client(late(0.02), [0.0], 0.8)] == [True]
    assert ["core" in fault for fault in faults_of_client(late(0.0), [0.0], 0.81)] == [True]
    assert len(faults_of_client(late(0.0), [0.006] * 10, 0.0)) == 1
    lost = [Sample(0, 0.0, sent_s=0.0, ended_s=0.1, failure="client_limit")]
    assert "no more sockets" in faults_of_client(lost, [], 0.0)[0]
    assert SEND_LAG(Sample(0, 0.0)) is None
