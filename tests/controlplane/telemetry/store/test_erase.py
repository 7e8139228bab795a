"""What is a tenant's is erased, and nothing else."""

from controlplane.telemetry.core.canary_rows import Score
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.arrow_columns import span_table
from tests.support.telemetry.samples import NOON_NS, S, row, span


def filled(store: Store) -> None:
    """Two requests of acme, two of other, and one trace that has requests of both."""
    rows = [row(n, tenant="acme" if n < 3 else "other") for n in range(1, 5)]
    shared = [row(9, tenant="acme", request_id="a" * 16), row(9, tenant="other", request_id="b" * 16)]
    store.writer.insert_requests([*rows, *shared], version=1)
    written = [span(n, trace_id=n.to_bytes(16, "big")) for n in (1, 2, 3, 4, 9)]
    roots = (("acme", b"a"), ("other", b"b"))
    written += [
        span(
            9,
            trace_id=(9).to_bytes(16, "big"),
            span_id=name * 8,
            attributes={"weir.tenant": tenant, "weir.audit.prompt": f"of {tenant}"},
        )
        for tenant, name in roots
    ]
    store.writer.insert_span_columns(span_table(written))
    store.writer.insert_scores([Score(f"{n:032x}", "good", 1.0) for n in (1, 3)], NOON_NS)


def test_its_requests_and_traces_are_erased_and_those_of_others_stay(store: Store) -> None:
    filled(store)
    before = store.eraser.counts("acme")
    assert (before["requests"], before["spans"], before["scores"]) == (3, 3, 1)
    store.eraser.erase("acme")
    assert set(store.eraser.counts("acme").values()) == {0}
    assert store.rows("SELECT tenant, count() FROM requests GROUP BY tenant") == [("other", 3)]
    assert store.rows("SELECT count() FROM spans") == [(4,)]
    assert store.rows("SELECT attributes['weir.audit.prompt'] AS hash FROM spans WHERE hash != ''") == [("of other",)]
    assert store.rows("SELECT count() FROM spans WHERE trace_id = unhex(leftPad('1', 32, '0'))") == [(0,)]


def test_what_began_before_an_instant_is_erased_and_a_trace_with_later_requests_stays(store: Store) -> None:
    filled(store)
    of_both = [
        row(7, tenant="acme", request_id=name * 16, entry_start_ns=NOON_NS + at)
        for name, at in (("c", 0), ("d", 7 * S))
    ]
    store.writer.insert_requests(of_both, version=1)
    store.writer.insert_span_columns(span_table([span(7, trace_id=(7).to_bytes(16, "big"))]))
    before_ns = row(2).entry_start_ns
    assert store.eraser.counts("acme", before_ns) == {
        "spans": 1, "scores": 1, "lost_traces": 0, "request_samples": 0, "requests": 2,
    }  # fmt: skip
    store.eraser.erase("acme", before_ns)
    assert set(store.eraser.counts("acme", before_ns).values()) == {0}
    assert store.rows("SELECT lower(hex(request_id)) FROM requests WHERE tenant = 'acme' ORDER BY request_id") == [
        (row(2).request_id,), ("a" * 16,), ("d" * 16,),
    ]  # fmt: skip
    assert store.rows("SELECT count() FROM spans") == [(7,)]


def test_a_tenant_without_a_trace_is_no_error_and_its_name_is_no_sql(store: Store) -> None:
    filled(store)
    for name in ("nobody", "' OR 1=1 --", "\\"):
        store.eraser.erase(name)
    assert store.rows("SELECT count() FROM requests") == [(6,)]
