"""What is written is read back as it was."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger.row import Attempt
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.arrow_columns import span_table
from tests.support.telemetry.samples import FEW, NOON_NS, TEXT, U64, S, row, span, spans

_numbers = count(1)


@FEW
@given(st.lists(spans(), min_size=1, max_size=20, unique_by=lambda span: (span.trace_id, span.span_id)))
def test_spans_come_back_with_their_types(store: Store, written: list[Span]) -> None:
    # Traces of their own: of copies that are equally long, either may come back.
    own = {trace_id: next(_numbers).to_bytes(16) for trace_id in sorted({span.trace_id for span in written})}
    written = [span._replace(trace_id=own[span.trace_id]) for span in written]
    store.writer.insert_span_columns(span_table(written))
    found = store.requests.spans_of([span.trace_id.hex() for span in written])
    assert {span for trace in found.values() for span in map(_frozen, trace)} >= set(map(_frozen, written))


def _frozen(span: Span) -> tuple[object, ...]:
    return tuple(map(repr, span))


@FEW
@given(
    start=st.integers(0, 10**12),
    texts=st.fixed_dictionaries(
        dict.fromkeys(
            ("model", "tenant", "replica", "error_type", "ttft_definition", "caller_region", "prompt_hash", "guard"),
            TEXT,
        )
    ),
    numbers=st.fixed_dictionaries(
        {
            "ttft_ns": st.none() | U64,
            "http_status": st.none() | st.integers(0, 599),
            "prompt_tokens": st.none() | st.integers(0, 2**32 - 1),
            "cached_tokens": st.none() | st.integers(0, 2**32 - 1),
            "cost_usd": st.none() | st.floats(0, 1e6),
            "policy_version": st.none() | U64,
            "stream": st.booleans(),
            "cold_start": st.booleans(),
            "unmeasured": st.booleans(),
            "repeated": st.booleans(),
            "can_wait": st.booleans(),
            "idempotency_key": st.integers(0, 2**32 - 1),
            "answer_bytes": st.none() | st.integers(0, 2**32 - 1),
            "attempts": st.lists(st.builds(Attempt, TEXT, TEXT, TEXT, TEXT, st.booleans(), U64, U64), max_size=3).map(
                tuple
            ),
        }
    ),
)
def test_a_request_row_comes_back_whole(
    store: Store, start: int, texts: dict[str, str], numbers: dict[str, object]
) -> None:
    number = next(_numbers)
    written = row(number, entry_start_ns=NOON_NS + start, **texts, **numbers)
    store.writer.insert_requests([written], version=1)
    assert store.requests.request_rows(written.trace_id) == [written]


def test_a_window_is_half_open_and_by_entry_time(store: Store) -> None:
    early, late = row(1, entry_start_ns=NOON_NS), row(2, entry_start_ns=NOON_NS + S)
    store.writer.insert_requests([early, late], version=1)
    assert store.requests.page(Window(NOON_NS, NOON_NS + S)).rows == [early]
    assert store.requests.page(Window(NOON_NS + 1, NOON_NS + S + 1)).rows == [late]


def test_a_trace_nobody_sent_is_empty(store: Store) -> None:
    assert store.requests.trace("ab" * 16) == []
    assert store.requests.request_rows("ab" * 16) == []
    assert store.requests.spans_of([]) == {}
    assert store.overview.newest() is None


def test_of_a_long_trace_the_earliest_spans_are_read_each_once(store: Store) -> None:
    trace_id, other = b"t" * 16, b"u" * 16
    written = [span(number, trace_id=trace_id, start_ns=NOON_NS - number, end_ns=NOON_NS) for number in range(1, 9)]
    store.writer.insert_span_columns(span_table(written))
    store.writer.insert_span_columns(span_table([*written, span(9, trace_id=other)]))  # sent twice
    for most in (None, 3, 8, 100):
        expected = [each.span_id for each in reversed(written)][:most]
        for asked in ([trace_id.hex()], [trace_id.hex(), other.hex()]):
            assert [each.span_id for each in store.requests.spans_of(asked, most)[trace_id.hex()]] == expected


def test_settings_that_a_server_does_not_have_are_left_out(store: Store) -> None:
    assert store.settings_clause({"max_threads": 1, "no_such_setting": 0}) == " SETTINGS max_threads = 1"
    assert store.settings_clause({"no_such_setting": 0}) == ""
