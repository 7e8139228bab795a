"""Several pipelines on one store that interleave at every step: each request is one row, made of all its spans."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import permutations

import pytest

from controlplane.telemetry.core.spans import Caller, Span
from controlplane.telemetry.ingest.otlp.decode.columnar import Listed
from controlplane.telemetry.ingest.pipeline.assembly import SLACK_S, Closing, Shared
from controlplane.telemetry.ingest.pipeline.batch import Batch, version_of
from controlplane.telemetry.ingest.pipeline.fleet_names import FleetNames
from controlplane.telemetry.ingest.pipeline.sink import Sink
from controlplane.telemetry.ingest.pipeline.status import Status
from controlplane.telemetry.ingest.pipeline.store_port import StoreAdapter
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.ledger import LedgerRow, close
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.keys import SHARES_KEPT_H, RequestKey, key_of, share_of
from tests.support.telemetry.ledger_traces import gateway_trace, span
from tests.support.telemetry.store_fixtures import Databases

NS = 10**9
NOW_NS = time.time_ns()


def whole() -> list[Span]:
    """A gateway's request and Triton's spans inside its call, in a trace of their own."""
    trace_id = os.urandom(16)
    spans = gateway_trace(at=NOW_NS, root={"weir__model": "chat-small"})
    call = next(one for one in spans if one.name == "model.infer")
    request = span("InferRequest", NOW_NS + 210, NOW_NS + 960, call, kind=2, service="triton", scope="triton-server")
    model = span(
        "chat_small",
        NOW_NS + 220,
        NOW_NS + 950,
        request,
        kind=2,
        service="triton",
        also={"triton.model_name": "chat_small"},
    )
    return [one._replace(trace_id=trace_id) for one in [*spans, request, model]]


class Interrupted(StoreAdapter):
    """Calls `between` once, before a call of the given name."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, 30)
        self.before: dict[str, Callable[[], None]] = {}

    def _now(self, name: str) -> None:
        if between := self.before.pop(name, None):
            between()

    def prepare(self) -> None: ...

    def insert_shares(self, process: int, batch: int, shares: Sequence[int]) -> None:
        self._now("insert_shares")
        super().insert_shares(process, batch, shares)

    def shared(self, process: int, batch: int, age_s: int) -> dict[int, int]:
        self._now("shared")
        return super().shared(process, batch, age_s)

    def known_spans(self, trace_ids: Sequence[bytes], most: int | None = None) -> list[list[Span]]:
        self._now("known_spans")
        return super().known_spans(trace_ids, most)

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]:
        self._now("request_keys")
        return super().request_keys(trace_ids)

    def insert_requests(self, rows: Sequence[LedgerRow], version: int | Sequence[int]) -> None:
        self._now("insert_requests")
        super().insert_requests(rows, version)

    def withdraw_requests(self, keys: Sequence[RequestKey], version: int | Sequence[int]) -> None:
        self._now("withdraw_requests")
        super().withdraw_requests(keys, version)


STEPS = ("insert_shares", "shared", "insert_requests", "known_spans", "request_keys", "withdraw_requests")


@pytest.fixture(scope="module")
def dsn(databases: Databases) -> Iterator[str]:
    """One database for all tests, whose traces differ."""
    taken = databases.take()
    yield taken.dsn
    databases.give_back(taken)


@pytest.fixture(scope="module")
def store(dsn: str) -> Iterator[Store]:
    with closing(Store(dsn)) as opened:
        yield opened


@pytest.fixture
def adapter(dsn: str) -> Iterator[Callable[[], Interrupted]]:
    opened: list[Interrupted] = []

    def one() -> Interrupted:
        opened.append(Interrupted(dsn))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


def batch_of(spans: list[Span], *, amends: bool = False) -> Batch:
    return Batch(
        spans=[Listed([(one, 9) for one in spans])],
        rows=[] if amends else [(row, version_of(spans)) for row in close(spans)],
        amend=[spans[0].trace_id] if amends else [],
        closed=[spans[0].trace_id],
        since_ns=time.time_ns(),
        checkpoint=Position(1, 1),
    )


def write(store: StoreAdapter, process: int, batch: Batch) -> None:
    """One pipeline writes a whole batch."""
    ended = threading.Event()
    refused: list[object] = []

    def stored(_: Batch, status: Status) -> None:
        ended.set()

    sink = Sink(store, process, stored, lambda items, why: refused.extend(items))
    sink.start()
    sink.put(batch)
    assert ended.wait(60)
    sink.stop()
    assert not refused


def the_row(spans: list[Span]) -> LedgerRow:
    [row] = close(spans)
    return row


def rows(store: Store, spans: list[Span]) -> list[LedgerRow]:
    """What the store has of the trace of these spans."""
    return store.requests.request_rows(spans[0].trace_id.hex())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("late_is_inner", [True, False])
def test_another_pipeline_writes_its_part_between_any_two_steps(
    adapter: Callable[[], Interrupted], store: Store, step: str, late_is_inner: bool
) -> None:
    spans = whole()
    inner, outer = spans[8:], spans[:8]
    parts = [outer, inner] if late_is_inner else [inner, outer]
    one, other = adapter(), adapter()
    one.before[step] = lambda: write(other, 2, batch_of(parts[1]))
    write(one, 1, batch_of(parts[0], amends=True))
    assert "insert_shares" not in one.before
    if step in one.before:  # it had nothing to take back, so the other comes after it
        one.before.pop(step)()
    assert rows(store, spans) == [the_row(spans)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_three_parts_in_any_order_and_the_first_again_after_a_kill(
    adapter: Callable[[], Interrupted], store: Store, order: tuple[int, ...]
) -> None:
    spans = whole()
    parts = [spans[:4], spans[4:9], spans[9:]]
    for number in (*order, order[0]):
        write(adapter(), number + 1, batch_of(parts[number]))
    assert rows(store, spans) == [the_row(spans)]


def named_batch(lost: Span, caller: Caller, *, known: bool) -> Batch:
    """What a pipeline writes that has learned to which call a lost trace belongs."""
    trace_id = lost.trace_id
    return Batch(
        closed=[trace_id], amend=[trace_id] if known else [], callers={trace_id: caller}, since_ns=time.time_ns(),
        checkpoint=Position(1, 1),
    )  # fmt: skip


@pytest.mark.parametrize("home_first", [True, False])
@pytest.mark.parametrize("processes", [(1, 1), (1, 2)])
def test_a_part_of_a_lost_trace_that_came_by_itself_is_taken_home(
    adapter: Callable[[], Interrupted], store: Store, home_first: bool, processes: tuple[int, int]
) -> None:
    spans = whole()
    outer = spans[8]
    caller = Caller(outer.trace_id, outer.parent_id)
    alone = outer._replace(trace_id=os.urandom(16), parent_id=b"")
    write(adapter(), 3, batch_of([*spans[:8], *spans[9:]]))
    same = processes[0] == processes[1]  # a pipeline knows by itself which traces it has closed
    parts = [named_batch(alone, caller, known=False), batch_of([alone], amends=same)]
    if not home_first:
        parts = [batch_of([alone]), named_batch(alone, caller, known=same)]
    for process, part in zip(processes, parts, strict=True):
        write(adapter(), process, part)
    assert rows(store, spans) == [the_row(spans)]
    assert rows(store, [alone]) == []


@pytest.mark.parametrize("first", [1, 2])
def test_a_pipeline_closes_again_what_it_took_home_before_the_rest_came(
    adapter: Callable[[], Interrupted], store: Store, first: int
) -> None:
    spans = whole()
    outer = spans[8]
    alone = outer._replace(trace_id=os.urandom(16), parent_id=b"")
    write(adapter(), first, batch_of([alone]))
    write(adapter(), 1, named_batch(alone, Caller(outer.trace_id, outer.parent_id), known=first == 1))
    write(adapter(), 1, batch_of([*spans[:8], *spans[9:]]))
    assert rows(store, spans) == [the_row(spans)]


def test_traces_that_name_each_other_as_their_home_end(adapter: Callable[[], Interrupted], store: Store) -> None:
    spans, others = whole(), whole()
    write(adapter(), 1, batch_of(spans))
    batch = batch_of(others, amends=True)
    batch.callers = {
        others[0].trace_id: Caller(spans[0].trace_id, bytes(8)), spans[0].trace_id: Caller(others[0].trace_id, bytes(8))
    }  # fmt: skip
    write(adapter(), 1, batch)
    assert rows(store, others) == []


def test_a_pipeline_that_is_alone_reads_no_spans_back(adapter: Callable[[], Interrupted], store: Store) -> None:
    alone = adapter()
    alone.before["known_spans"] = lambda: pytest.fail("it read spans")
    spans = whole()
    for _ in range(2):  # its own shares are not another's
        write(alone, 1, batch_of(spans))
    assert rows(store, spans) == [the_row(spans)]


def test_a_trace_that_cannot_be_closed_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = whole()
    present = {key_of(the_row(spans))}
    assert Closing([spans], present, {}, FleetNames()).withdrawn == []
    assert Closing([spans[8:]], present, {}, FleetNames()).withdrawn == [(key, 5) for key in present]
    assert Closing([], present, {}, FleetNames()).withdrawn == [], "the store has none of its spans"

    def fail(_: list[Span]) -> list[LedgerRow]:
        raise ArithmeticError

    monkeypatch.setattr("controlplane.telemetry.ingest.pipeline.batch.close", fail)
    assert Closing([spans], present, {}, FleetNames()).withdrawn == []


def test_only_shares_that_are_new_are_a_reason_to_close_again() -> None:
    ids = [bytes([number]) * 16 for number in (1, 2)]
    ids = [one[:8] + bytes(8) for one in ids]
    shared = Shared(Batch(closed=ids, since_ns=100 * NS))
    first, second = share_of(ids)
    assert shared.new({}) == set()
    assert shared.new({first: 1}) == {ids[0]}
    assert shared.new({first: 1}) == set()
    assert shared.new({first: 1, second: 1}) == {ids[1]}
    assert shared.new({first: 2, second: 1}) == {ids[0]}


def test_it_looks_back_as_far_as_the_batch_reaches_and_shares_are_kept() -> None:
    shared = Shared(Batch(since_ns=100 * NS))
    assert shared.age_s(130 * NS) == 30 + SLACK_S
    assert shared.age_s(50 * NS) == SLACK_S, "a clock was set back"
    assert shared.age_s(10**6 * NS) == SHARES_KEPT_H * 3600
