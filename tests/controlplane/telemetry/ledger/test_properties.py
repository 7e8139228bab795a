"""Properties that the ledger has for any tree of spans."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger import close
from tests.support.soak import sized
from tests.support.telemetry.any_trace import traces, trees
from tests.support.telemetry.ledger_traces import assert_closes


def _has_a_request(trace: list[Span]) -> bool:
    """Whether one of its spans is a gateway's own, and no other span has its id."""
    ids = Counter(span.span_id for span in trace)
    return any("weir.request" in span.attributes and ids[span.span_id] == 1 for span in trace)


@settings(max_examples=sized(60, soak=1000), deadline=None)
@given(traces)
def test_it_closes_exactly(trace: list[Span]) -> None:
    rows = close(trace)
    assert_closes(rows)
    if _has_a_request(trace):
        assert rows
    assert len({row.request_id for row in rows}) == len(rows)


@settings(max_examples=sized(40, soak=500), deadline=None)
@given(traces, st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(trace: list[Span], order: random.Random) -> None:
    shuffled = list(trace)
    order.shuffle(shuffled)
    assert close(shuffled) == close(trace)


@settings(max_examples=sized(30, soak=500), deadline=None)
@given(traces, st.data())
def test_a_resent_span_changes_nothing(trace: list[Span], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(trace), max_size=5)) if trace else []
    assert close([*trace, *again]) == close(trace)


@settings(max_examples=sized(30, soak=500), deadline=None)
@given(trees(), st.data())
def test_a_gateways_request_keeps_its_identity_and_its_time_whatever_else_has_come(
    trace: list[Span], data: st.DataObject
) -> None:
    entry = trace[0]._replace(scope="weir.gateway", attributes={"weir.request": True})
    partly = [entry, *(span for span in trace[1:] if data.draw(st.booleans()))]
    (row,) = (row for row in close(partly) if row.request_id == entry.span_id.hex())
    assert (row.entry_start_ns, row.e2e_ns) == (0, 1000)
