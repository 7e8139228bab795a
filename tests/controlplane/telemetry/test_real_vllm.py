"""What a real vLLM 0.32 sends: 11 spans of its start, which took 62 s, and 18 requests. It is called by clients that send no spans."""

import random
from pathlib import Path

import pytest

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.replica_load import ModelLoad
from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger import LedgerRow
from inference.contract import snapshot_file
from inference.contract.snapshot import Endpoint, Model, Pool, Route, Snapshot
from tests.support.telemetry.otlp_payloads import spans_in
from tests.support.telemetry.process import Running
from tests.support.wait import eventually

REQUESTS, LOADING_S = 18, 62.221


@pytest.fixture(scope="module")
def bodies(shared_dir: Path) -> list[bytes]:
    folder = shared_dir / "fixtures" / "vllm"
    if not folder.is_dir():
        pytest.skip(f"needs {folder}, which is not here")
    return [path.read_bytes() for path in sorted(folder.glob("otlp-traces-*.pb"))]


def spans_of(bodies: list[bytes], name: str) -> list[Span]:
    return [span for body in bodies for span in spans_in(body) if span.name == name]


def test_its_requests_are_requests_its_start_is_a_cold_start_and_the_fleet_names_them(
    restarted: Running, bodies: list[bytes]
) -> None:
    telemetry = restarted
    publish(telemetry.home)
    for body in random.Random(0).sample(bodies, len(bodies)):
        telemetry.post(body)
    requests, start = spans_of(bodies, "llm_request"), spans_of(bodies, "Overall Loading")[0]
    starts = [span.start_ns for body in bodies for span in spans_in(body)]
    window = Window(min(starts), max(starts) + 1)

    def rows() -> list[LedgerRow]:
        with telemetry.store() as store:
            return store.requests.page(window, limit=100).rows

    def loads() -> list[ModelLoad]:
        with telemetry.store() as store:
            return store.replicas.model_loads(window)

    eventually(lambda: len(rows()) == REQUESTS and bool(loads()), "every request and the start are recorded")
    [load] = loads()
    assert {row.request_id for row in rows()} == {span.span_id.hex() for span in requests}
    assert {(row.model, row.pool, row.region, row.adapter) for row in rows()} == {("tiny", "vllm-tiny", "eu", "vllm")}
    assert (load.model, load.pool, load.adapter, load.start_ns) == ("tiny", "vllm-tiny", "vllm", start.start_ns)
    assert load.duration_ns / 1e9 == pytest.approx(LOADING_S, abs=0.001)


def publish(folder: Path) -> None:
    """A fleet that has this server as the pool `vllm-tiny`, as its `service.name` says."""
    pool = Pool(
        "vllm-tiny",
        "tiny",
        "eu",
        "tiny",
        "",
        (Endpoint("vllm-tiny-0", url="http://10.0.0.7:8000/v1"),),
        protocol="openai",
    )
    fleet = Snapshot(1, (Model("tiny", (Route("vllm-tiny"),)),), (pool,), (), ())
    snapshot_file.write(folder / "snapshot.json", fleet)
