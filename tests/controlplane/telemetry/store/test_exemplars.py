"""Exemplars in a real store: found by series, once each, spread over the range."""

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import S
from tests.support.telemetry.stored_metrics import linked, write

FROM = 1_700_000_000 * S
WINDOW = Window(FROM, FROM + 100 * S)
TRACES = [bytes([number]) * 16 for number in range(1, 201)]


def filled(store: Store) -> None:
    """Every half second one, whose value is its number; and one of another metric."""
    for metric in ("wait", "other"):
        write(store, metric, [(FROM + 1, 1.0)], pod="a")
    linked(store, "other", [(FROM + S, 1.0, TRACES[0])], pod="a")
    for at in range(0, 200, 20):
        some = [(FROM + (n + 1) * S // 2, float(n), TRACES[n]) for n in range(at, at + 20)]
        linked(store, "wait", some, pod="a")
        linked(store, "wait", some, pod="a")  # sent again


def test_each_counts_once_and_leads_to_its_trace(store: Store) -> None:
    filled(store)
    found = store.exemplars.of_series(store.metrics.series("wait"), WINDOW, limit=1000)
    assert (found.total, len(found.shown)) == (200, 200)
    newest = found.shown[0]
    assert (newest.value, newest.time_ns, newest.trace_id, newest.span_id) == (
        199.0,
        FROM + 100 * S,
        TRACES[199].hex(),
        "",
    )
    assert newest.info.labels == {"pod": "a"}
    [other] = store.exemplars.of_series(store.metrics.series("other"), WINDOW).shown
    assert other.info.metric == "other"


def test_where_there_are_more_the_highest_of_each_part_of_the_range_are_given(store: Store) -> None:
    filled(store)
    found = store.exemplars.of_series(store.metrics.series("wait"), WINDOW, limit=10)
    assert found.total == 200
    assert [one.value for one in found.shown] == [float(n) for n in range(199, 0, -20)]


def test_where_they_lie_together_they_are_given_all_the_same(store: Store) -> None:
    filled(store)
    found = store.exemplars.of_series(store.metrics.series("wait"), Window(FROM - 1000 * S, FROM + 5 * S), limit=20)
    assert sorted(one.value for one in found.shown) == [float(n) for n in range(10)]


def test_the_range_is_open_at_its_beginning(store: Store) -> None:
    filled(store)
    found = store.exemplars.of_series(store.metrics.series("wait"), Window(FROM + S // 2, FROM + S))
    assert [one.value for one in found.shown] == [1.0]
    assert store.exemplars.of_series([], WINDOW).total == 0
