"""Two telemetry processes on one ClickHouse: each closes the spans it received, and spans that both received count once."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from tests.support.telemetry.embedded_store import dsn_of, store_process
from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.process import Run
from tests.support.wait import eventually


@pytest.fixture
def dsn(tmp_path: Path) -> Iterator[str]:
    with store_process(tmp_path / "clickhouse") as process:
        yield dsn_of(process)


def test_resends_across_both_count_once(run: Run, dsn: str) -> None:
    began_ns = time.time_ns()
    both = [run(store_dsn=dsn), run(store_dsn=dsn)]  # they make the tables at once, too
    for telemetry in both:
        telemetry.ready()
    shared = [request(12, traces=3).SerializeToString() for _ in range(20)]
    own = [[request(4).SerializeToString() for _ in range(10)] for _ in both]
    for telemetry, bodies in zip(both, own, strict=True):
        assert {telemetry.post(body)[0] for body in [*shared, *bodies, *shared]} == {200}
    for telemetry in both:
        eventually(lambda telemetry=telemetry: telemetry.metric("weir_ingest_behind_seconds") == 0, "it is worked off")  # type: ignore[misc]
    store, window = Store(dsn), Window(began_ns - 10**9, time.time_ns())
    assert store.latency.report(window).requests == 20 * 3 + 2 * 10
    [(spans,)] = store.rows("SELECT count() FROM spans FINAL")
    assert spans == 20 * 12 + 2 * 10 * 4


def test_one_that_dies_leaves_the_other_at_work(run: Run, dsn: str) -> None:
    one, other = run(store_dsn=dsn).ready(), run(store_dsn=dsn).ready()
    bodies = [request(4).SerializeToString() for _ in range(10)]
    assert {one.post(body)[0] for body in bodies} == {200}
    one.kill()
    assert {other.post(body)[0] for body in bodies} == {200}, (
        "an exporter that is answered nothing sends again elsewhere"
    )
    store = Store(dsn)
    eventually(lambda: store.rows("SELECT count() FROM requests FINAL") == [(10,)], "each is there")
    one.start().ready()
    eventually(lambda: one.metric("weir_ingest_behind_seconds") == 0, "what the first had taken is worked off")
    assert store.rows("SELECT count() FROM requests FINAL") == [(10,)]
    assert store.rows("SELECT count() FROM spans FINAL") == [(40,)]
