"""A record, trace or batch that cannot be worked off is set aside, counted and logged once. All others are stored."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ingest.otlp.decode import export_request
from controlplane.telemetry.ingest.pipeline import batch as batches
from controlplane.telemetry.ingest.pipeline.batch import Batch
from controlplane.telemetry.ingest.pipeline.closed_traces import ClosedTraces
from controlplane.telemetry.ingest.pipeline.report import REFUSED_FILE, Folder, Reporter
from controlplane.telemetry.ingest.pipeline.sink import Sink
from controlplane.telemetry.ingest.pipeline.status import Status
from controlplane.telemetry.ingest.pipeline.status import decode as decode_status
from controlplane.telemetry.ingest.pipeline.traces import Limits, OpenTrace
from controlplane.telemetry.ingest.pipeline.worker import BatchLimits, Worker
from controlplane.telemetry.ingest.spool.frame import Kind
from controlplane.telemetry.ingest.spool.reader import SpoolReader
from controlplane.telemetry.ingest.spool.writer import SpoolWriter
from controlplane.telemetry.metrics import batch as samples
from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.pipeline.memory_store import MemoryStore, Outcome
from tests.support.wait import eventually

Refused = list[tuple[object, str]]


class Kept:
    """A sink that keeps its batches."""

    alive = True

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def put(self, batch: Batch) -> None:
        self.batches.append(batch)

    @property
    def rows(self) -> set[str]:
        return {row.trace_id for batch in self.batches for row, _ in batch.rows}


class Worked:
    """A worker over a real spool with these records."""

    def __init__(self, folder: Path, *records: tuple[Kind, bytes], shard: int = 0, shards: int = 1) -> None:
        self.refused: Refused = []
        self.kept = Kept()
        writer = SpoolWriter(folder, max_bytes=2**30)
        for kind, payload in records:
            writer.append(kind, payload).result(120)
        self.end = writer.committed
        writer.close()
        reader = SpoolReader(folder)
        self.worker = Worker(
            reader,
            self.kept,  # type: ignore[arg-type]
            ClosedTraces(folder, "closed", 0, size=1000),
            lambda: self.end,
            shard=shard,
            shards=shards,
            limits=Limits(quiet_s=0.0),
            batches=BatchLimits(age_s=0.0),
            refused=lambda items, why: self.refused.extend((item, why) for item in items),
        )
        eventually(self._done, "all is worked off")

    def _done(self) -> bool:
        self.worker.step()
        return bool(self.kept.batches) and self.kept.batches[-1].checkpoint == self.end


def bodies(number: int) -> tuple[list[bytes], list[str]]:
    made = [request(2) for _ in range(number)]
    traces = [one.resource_spans[0].scope_spans[0].spans[0].trace_id.hex() for one in made]
    return [one.SerializeToString() for one in made], traces


def test_a_record_that_cannot_be_read_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, poison, last), traces = bodies(3)
    really = export_request.read

    def read(body: bytes, *arguments: Any) -> Iterator[export_request.Spans]:
        if body == poison:
            raise RecursionError("too deep")
        return really(body, *arguments)

    monkeypatch.setattr(export_request, "read", read)
    done = Worked(tmp_path, *[(Kind.TRACES, body) for body in (first, poison, last)])
    assert done.kept.rows == {traces[0], traces[2]}
    [(item, why)] = done.refused
    assert isinstance(item, dict) and item["payload"] == poison and "too deep" in why


def test_metrics_that_cannot_be_read_are_set_aside_by_the_first_shard(tmp_path: Path) -> None:
    (body,), traces = bodies(1)
    good = samples.encode(samples.Batch([], b"", b"", b"", b""))
    records = [(Kind.SAMPLES, b"\xc1 no msgpack"), (Kind.SAMPLES, good), (Kind.TRACES, body)]
    done = Worked(tmp_path / "one", *records)
    assert done.kept.rows == set(traces) and len(done.refused) == 1
    assert sum(len(batch.samples) for batch in done.kept.batches) == 1


def test_a_trace_whose_spans_cannot_be_made_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, traces = bodies(3)
    really = OpenTrace.spans

    def spans(trace: OpenTrace) -> list[Span]:
        found = really(trace)
        if found[0].trace_id.hex() == traces[1]:
            raise ValueError("no such value")
        return found

    monkeypatch.setattr(OpenTrace, "spans", spans)
    done = Worked(tmp_path, *[(Kind.TRACES, body) for body in given])
    assert done.kept.rows == {traces[0], traces[2]}
    assert [item for item, _ in done.refused] == [{"trace_id": traces[1], "spans": 2}]


def test_a_trace_that_cannot_be_closed_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, traces = bodies(3)
    really = batches.close  # type: ignore[attr-defined]

    def close(spans: Sequence[Span]) -> Any:
        if spans[0].trace_id.hex() == traces[1]:
            raise ZeroDivisionError("a fault of ours")
        return really(spans)

    monkeypatch.setattr(batches, "close", close)
    done = Worked(tmp_path, *[(Kind.TRACES, body) for body in given])
    assert done.kept.rows == {traces[0], traces[2]}
    assert [(item, why) for item, why in done.refused] == [
        ({"trace_id": traces[1], "spans": 2}, "ZeroDivisionError: a fault of ours")
    ]


def test_a_batch_that_fails_for_a_reason_nobody_foresaw_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    really = Sink._columns

    def columns(sink: Sink, spans: Any) -> Any:
        if any(span.name == "odd" for one in spans for part in one.parts() for span in one.of(part)):
            raise RuntimeError("nobody foresaw this")
        return really(sink, spans)

    monkeypatch.setattr(Sink, "_columns", columns)
    store = MemoryStore()
    outcome = Outcome(store, ["a", "odd"], ["b"])
    assert store.names == ["a", "b"]
    assert [item.name for item in outcome.refused if isinstance(item, Span)] == ["odd"]
    assert outcome.checkpoints == [0, 1]


def read_only(*_: object, **__: object) -> NoReturn:
    raise OSError(30, "Read-only file system")


class Pipe:
    """The statuses that a reporter writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[Status] = []
        monkeypatch.setattr(
            "controlplane.telemetry.ingest.pipeline.report.os.write",
            lambda _, line: self.said.append(decode_status(line)),
        )


def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Folder, Pipe]:
    pipe = Pipe(monkeypatch)
    monkeypatch.setattr("controlplane.telemetry.ingest.pipeline.report._AGAIN_S", 0.01)
    reporter = Reporter(1, 3)
    reporter.store_away("")
    return Folder(tmp_path, reporter), pipe


def test_a_disk_that_refuses_is_waited_for_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, pipe = patient(tmp_path, monkeypatch)
    tries: list[Callable[..., None]] = [read_only, read_only, lambda: None]
    assert folder.retry(lambda: tries.pop(0)())
    assert [status.store_away for status in pipe.said] == [
        "",
        "the spool's folder cannot be written: Read-only file system",
        "",
    ]
    assert {status.shard for status in pipe.said} == {3}
    folder.end()
    assert not folder.retry(read_only), "nobody waits when the process ends"


def test_what_is_refused_is_counted_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, pipe = patient(tmp_path, monkeypatch)
    monkeypatch.setattr("controlplane.telemetry.ingest.pipeline.report.MAX_REFUSED_BYTES", 1000)
    for number in range(30):
        folder.refuse([{"payload": bytes(100), "number": number}, object()], "because")
    assert sum(status.refused for status in pipe.said) == 60
    files = sorted(tmp_path.glob(f"{REFUSED_FILE}*"))
    assert len(files) == 2 and sum(path.stat().st_size for path in files) < 2500
    assert '"number":29' in files[0].read_text() and '"not_kept"' in files[0].read_text()
