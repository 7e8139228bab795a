"""Each request and each span counts once, whatever was sent again, however late, before and after merges."""

import secrets

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.store import Store, migrate
from controlplane.telemetry.store.write.arrow_columns import span_table
from controlplane.telemetry.store.write.keys import key_of
from tests.support.soak import sized
from tests.support.telemetry.samples import FEW, NOON_NS, S, row, span, spans

LONG = Window(NOON_NS - 3 * 86400 * S, NOON_NS + 3 * 86400 * S)


@settings(FEW, max_examples=sized(8, soak=100))
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5 * 10**6)), min_size=1, max_size=12),
        min_size=1,
        max_size=6,
    ),
    data=st.data(),
)
def test_the_highest_version_of_a_request_counts_and_counts_once(
    dsn: str, store: Store, batches: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    store.command("TRUNCATE TABLE requests")
    expected = {}
    order = data.draw(st.permutations(range(len(batches))))
    for version, batch in sorted(enumerate(batches), key=lambda item: order[item[0]]):
        rows = {}
        for number, queue in batch:
            entry = NOON_NS + (number % 5 - 2) * 86400 * S  # on several days
            rows[number] = row(number, entry_start_ns=entry, start_ns=entry - queue, stages={"queue": queue})
        store.writer.insert_requests(list(rows.values()), version=version)
        for number, written in rows.items():
            if number not in expected or expected[number][0] <= version:
                expected[number] = (version, written)
    wanted = sorted((written for _, written in expected.values()), key=lambda row: row.trace_id)
    for merged in (False, True):
        if merged:
            store.command("OPTIMIZE TABLE requests FINAL")
        assert store.latency.report(LONG).requests == len(wanted)
        assert sum(point.requests for point in store.latency.series(LONG, {}, 3600)) == len(wanted)
        assert sum(health.requests for health in store.overview.health(LONG, "model")) == len(wanted)
        assert sorted(store.requests.page(LONG).rows, key=lambda row: row.trace_id) == wanted
        for written in wanted[:2]:
            assert store.requests.request_rows(written.trace_id) == [written]


@FEW
@given(st.lists(spans(), min_size=1, max_size=10, unique_by=lambda each: each.span_id), st.integers(1, 3))
def test_a_span_sent_again_counts_once(store: Store, written: list[Span], times: int) -> None:
    trace = secrets.token_bytes(
        16
    )  # of its own: examples share the store, and Hypothesis likes to draw a trace id again
    written = [each._replace(trace_id=trace) for each in written]
    for _ in range(times + 1):
        store.writer.insert_span_columns(span_table(written))
    found = store.requests.trace(trace.hex())
    assert sorted(each.span_id for each in found) == sorted(each.span_id for each in written)


def test_of_unlike_copies_of_a_span_the_longer_counts_before_and_after_a_merge(store: Store) -> None:
    first = span(1)
    longer = first._replace(end_ns=first.end_ns + S)
    store.writer.insert_span_columns(span_table([longer]))
    store.writer.insert_span_columns(span_table([first]))
    assert store.requests.trace(first.trace_id.hex()) == [longer]
    store.command("OPTIMIZE TABLE spans FINAL")
    assert store.requests.trace(first.trace_id.hex()) == [longer]


def test_rows_older_than_the_retention_go_by_themselves(front_dsn: str) -> None:
    dsn = f"{front_dsn.rpartition('/')[0]}/short_lived"
    migrate(dsn, retention_days=1)
    store = Store(dsn)
    old = row(1, entry_start_ns=10**18)
    store.writer.insert_requests([old], version=1)
    store.command("OPTIMIZE TABLE requests FINAL")
    assert store.requests.request_rows(old.trace_id) == []
    store.close()


def test_a_request_taken_back_is_gone_everywhere_until_more_is_known_of_it(store: Store) -> None:
    kept, gone = row(1), row(2, trace_id=row(1).trace_id)
    keys = {key_of(kept), key_of(gone)}
    trace = bytes.fromhex(kept.trace_id)
    store.writer.insert_requests([kept], version=5)
    store.writer.insert_requests([gone], version=3)
    store.writer.insert_requests([gone], version=5)
    assert store.writer.request_keys([trace]) == keys
    for _ in range(2):
        store.writer.withdraw_requests([key_of(gone)], version=6)
        assert store.writer.request_keys([trace]) == keys - {key_of(gone)}
        assert store.requests.request_rows(kept.trace_id) == store.requests.page(LONG).rows == [kept]
        assert store.latency.report(LONG).requests == 1
        assert store.overview.newest() == kept.end_ns
        store.command("OPTIMIZE TABLE requests FINAL")
    store.writer.insert_requests([gone], version=9)
    assert store.latency.report(LONG).requests == 2
    assert store.requests.request_rows(kept.trace_id) == [kept, gone]
    store.writer.withdraw_requests([], version=1)
    assert store.writer.request_keys([]) == set()


def test_taking_a_request_back_counts_for_what_is_written_later_and_knows_less_and_not_for_what_knows_more(
    store: Store,
) -> None:
    late, better = row(1), row(2)
    store.writer.withdraw_requests([key_of(late), key_of(better)], version=[7, 7])
    store.command("OPTIMIZE TABLE requests FINAL")
    store.writer.insert_requests([late, better], version=[6, 8])
    assert store.requests.page(LONG).rows == store.requests.request_rows(better.trace_id) == [better]
    assert store.requests.request_rows(late.trace_id) == []
    store.command("OPTIMIZE TABLE requests FINAL")
    assert store.requests.page(LONG).rows == [better]


def test_a_request_whose_start_was_corrected_is_one_request(store: Store) -> None:
    first = row(1)
    corrected = row(1, entry_start_ns=first.entry_start_ns + 5, start_ns=first.start_ns + 5, end_ns=first.end_ns + 5)
    store.writer.insert_requests([first], version=4)
    store.writer.insert_requests([corrected], version=6)
    store.writer.withdraw_requests([key_of(first)], version=7)
    assert store.requests.page(LONG).rows == store.requests.request_rows(first.trace_id) == [corrected]
    assert store.latency.report(LONG).requests == 1


def test_a_backfill_of_more_days_than_clickhouse_takes_by_default_is_one_batch_like_any_other(store: Store) -> None:
    day = 86_400 * S
    store.writer.insert_requests([row(n, entry_start_ns=NOON_NS - n * day) for n in range(1, 103)], 1)
    store.writer.insert_span_columns(
        span_table([span(n, start_ns=NOON_NS - n * day, end_ns=NOON_NS - n * day + 5) for n in range(1, 103)])
    )
    assert store.rows("SELECT count() FROM requests") == [(102,)]
    assert store.rows("SELECT count() FROM spans") == [(102,)]
