"""A trace, sender or disk that misbehaves does not affect others, and is reported. With the real process."""

import os
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from controlplane.telemetry.core.spans import ROW_SPANS
from controlplane.telemetry.ingest.spool import checkpoint
from tests.support.soak import sized
from tests.support.telemetry.otlp_payloads import MS, request
from tests.support.telemetry.process import Running, has_row, running
from tests.support.wait import eventually


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A process for tests that leave it as it was."""
    with running(tmp_path_factory.mktemp("isolation"), trace_open_s=2, stalled_s=4) as telemetry:
        yield telemetry


def huge(trace_id: bytes, began_ns: int, first: int, last: int) -> bytes:
    """Spans `first` to `last` of one trace; the 0th is its root, and the first to start."""
    made = request(1, trace_ids=[trace_id])
    root = made.resource_spans[0].scope_spans[0].spans[0]
    root.span_id = (1).to_bytes(8, "big")
    root.start_time_unix_nano, root.end_time_unix_nano = began_ns, began_ns + 100 * MS
    spans = made.resource_spans[0].scope_spans[0].spans
    for number in range(max(first, 1), last):
        spans.add(
            trace_id=trace_id,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=root.span_id,
            name="model.call",
            kind=3,
            start_time_unix_nano=began_ns + number,
            end_time_unix_nano=began_ns + number + MS,
        )
    if first:
        del spans[0]
    return made.SerializeToString()


def test_a_trace_of_tens_of_thousands_of_spans_disturbs_no_other_sender(telemetry: Running) -> None:
    trace_id, began_ns, spans = os.urandom(16), time.time_ns(), sized(12_000, soak=100_000)
    good: list[bytes] = []
    for at in reversed(range(0, spans, 2_000)):  # the root comes last, as exporters send it
        assert telemetry.post(huge(trace_id, began_ns, at, at + 2_000))[0] == 200
        if at % 10_000 == 0:
            good.append(request(4).SerializeToString())
            assert telemetry.post(good[-1])[0] == 200
            eventually(lambda: has_row(telemetry, good[-1]), "the good sender has its row while the other one sends")
    eventually(lambda: telemetry.metric("weir_ingest_stored_spans_total") >= spans, "all of its spans are stored")

    def row_of_the_whole() -> bool:
        with telemetry.store() as store:
            rows = store.requests.request_rows(trace_id.hex())
        return [row.span_count for row in rows] == [ROW_SPANS]

    eventually(row_of_the_whole, "it has one row, made of its earliest spans")
    eventually(lambda: telemetry.metric("weir_ingest_oversized_traces_total") >= 1, "it is counted")
    with telemetry.store() as store:
        assert store.requests.span_counts([trace_id]) == {trace_id: spans}
    assert telemetry.metric("weir_ingest_child_restarts_total") == 0


@contextmanager
def refusing_disk(telemetry: Running) -> Iterator[None]:
    """The kernel refuses every write of the receiver and its pipelines, as on a disk that became read-only."""
    processes = [
        telemetry.process.pid,
        *(child.pid for child in telemetry.children() if "pipeline" in str(child.cmdline())),
    ]
    for pid in processes:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in processes:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_a_disk_that_refuses_writes_is_503_and_named_and_over_by_itself(telemetry: Running) -> None:
    before = request(3).SerializeToString()
    assert telemetry.post(before)[0] == 200
    eventually(lambda: has_row(telemetry, before), "rows come")
    with refusing_disk(telemetry):
        code, _, headers = telemetry.post(request(3).SerializeToString())
        assert (code, headers["Retry-After"]) == (503, "5")
        code, said = telemetry.get("/readyz")
        assert code == 503 and b"the spool cannot be written: File too large" in said
        assert telemetry.metric("weir_spool_accepting") == 0
        assert telemetry.post(request(3).SerializeToString())[0] == 503, "nobody waits for an answer that does not come"
    eventually(lambda: telemetry.get("/readyz")[0] == 200, "it is ready again, without having been asked for anything")
    after = request(3).SerializeToString()
    assert telemetry.post(after)[0] == 200
    eventually(lambda: has_row(telemetry, after), "rows come again")


def test_a_pipeline_that_hangs_is_named_and_its_work_done_when_it_goes_on(telemetry: Running) -> None:
    resume = telemetry.pause("ingest.pipeline")
    body = request(3).SerializeToString()
    assert telemetry.post(body)[0] == 200
    eventually(lambda: telemetry.get("/readyz")[0] == 503, "it says that the work does not move")
    said = telemetry.readiness()
    assert "pipeline-0 has sent no status" in str(said["reason"]) and said["receiving"] == "ok"
    assert telemetry.get("/healthz")[0] == 200 and telemetry.metric("weir_ingest_silent_seconds") > 4
    resume()
    eventually(lambda: telemetry.get("/readyz")[0] == 200, "it is ready again")
    eventually(lambda: has_row(telemetry, body), "what came meanwhile has its rows")


def test_a_damaged_record_is_counted_and_its_segment_kept(telemetry: Running) -> None:
    resume = telemetry.pause("ingest.pipeline")
    bodies = [request(3).SerializeToString() for _ in range(3)]
    segment = max((telemetry.home / "spool").glob("*.spool"))
    damaged, lost_bytes = (telemetry.metric(f"weir_spool_{name}_total") for name in ("damaged_records", "lost_bytes"))
    places = []
    for body in bodies:
        places.append(segment.stat().st_size)
        assert telemetry.post(body)[0] == 200
    with segment.open("r+b") as file:
        file.seek(places[1] + 40)
        file.write(b"\xff\xff\xff")
    resume()
    eventually(lambda: has_row(telemetry, bodies[2]), "the record after it has its row")
    assert has_row(telemetry, bodies[0]) and not has_row(telemetry, bodies[1])
    assert telemetry.metric("weir_spool_damaged_records_total") == damaged + 1
    assert telemetry.metric("weir_spool_lost_bytes_total") == lost_bytes + 17 + len(bodies[1])
    assert (telemetry.home / "spool" / "damaged" / segment.name).exists()
    assert telemetry.log.read_text().count("spool.damaged") == 1


def test_it_ends_in_order_and_what_the_store_then_loses_with_the_power_is_worked_off_again(
    restarted: Running, tmp_path: Path
) -> None:
    first = request(3).SerializeToString()
    assert restarted.post(first)[0] == 200
    eventually(lambda: has_row(restarted, first), "the first is in the store")
    children = restarted.children()
    assert restarted.stop() == 0
    assert len(children) == 2 and not [child for child in children if child.is_running()]
    shutil.copytree(restarted.home / "store", tmp_path / "before", symlinks=True)
    restarted.start().ready()
    bodies = [request(30).SerializeToString() for _ in range(10)]
    for body in bodies:
        assert restarted.post(body)[0] == 200
    eventually(lambda: all(has_row(restarted, body) for body in bodies), "all are in the store")
    eventually(lambda: restarted.metric("weir_spool_backlog_bytes") == 0, "and the spool has nothing left to do")
    children = restarted.children()
    restarted.kill()
    _, left = psutil.wait_procs(children, timeout=120)
    assert not left, "they end by themselves, and may write until then"
    shutil.rmtree(restarted.home / "store")  # what had not reached the disk is gone, and the machine starts anew
    shutil.copytree(tmp_path / "before", restarted.home / "store", symlinks=True)
    (restarted.home / "spool" / checkpoint.BOOT_FILE).write_text("the boot before")
    restarted.start().ready()
    eventually(lambda: all(has_row(restarted, body) for body in [first, *bodies]), "all that was acknowledged is there")
    assert "spool.repeated" in restarted.log.read_text()


def test_a_backlog_is_told_with_its_true_age_after_a_restart(restarted: Running) -> None:
    idle_s = 0.0

    def idle() -> bool:
        """Whether everything received before now is worked off. Telemetry also scrapes itself."""
        nonlocal idle_s
        idle_s = time.time()
        return restarted.readiness()["behind_s"] == 0

    eventually(idle, "nothing waits")
    restarted.pause("ingest.pipeline")
    received_s = time.time()
    body = request(3).SerializeToString()
    assert restarted.post(body)[0] == 200
    time.sleep(2)  # more than the tolerance below
    restarted.kill()
    restarted.start()
    read_s = time.time()
    behind_s = restarted.readiness()["behind_s"]
    assert isinstance(behind_s, float) and read_s - received_s - 1 <= behind_s <= time.time() - idle_s + 1
    restarted.ready()
    eventually(lambda: has_row(restarted, body), "it is worked off")
    eventually(lambda: restarted.readiness()["behind_s"] == 0, "nothing is left")
    assert restarted.readiness()["work"] == "ok"


def test_a_pipeline_that_keeps_ending_is_named(restarted: Running) -> None:
    ended: set[int] = set()

    def kill_again() -> bool:
        for child in restarted.children():
            with suppress(psutil.Error):  # it has just ended
                if "controlplane.telemetry.ingest.pipeline" in child.cmdline() and child.pid not in ended:
                    ended.add(child.pid)
                    child.send_signal(signal.SIGKILL)
        return "keeps ending" in str(restarted.readiness().get("reason"))

    eventually(kill_again, "it says that starting it again does not help")
    assert restarted.get("/readyz")[0] == 503
    restarted.kill()  # it would be said for a minute
    restarted.start().ready()
