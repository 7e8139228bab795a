"""Known causes through the API and on the page: named with their evidence and what to do; where none shows, that is said."""

import re
import time
from typing import Any

import pytest
from django.test import Client

from controlplane.fleet.models import Observation, Replica
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.samples import S, row
from tests.support.telemetry.stored_metrics import write
from tests.support.web.html import page_of, words_of
from tests.support.web.served import Filled

HOUR = 3600 * S


@pytest.fixture(scope="module")
def window(annex: str) -> Window:
    """Two hours ago: one replica of a pool is four times as slow, and its requests wait out a batching window."""
    store, from_ns = Store(annex), time.time_ns() - 2 * HOUR
    rows = [
        row(
            10**7 + n, entry_start_ns=from_ns + n * S, pool="sick-pool", model="sick", replica=f"sick-{n % 3}", prompt_tokens=200,
            stages={"queue": 95_000_000, "model": 1_600_000_000 if n % 3 == 2 else 400_000_000},
        )
        for n in range(300)
    ]  # fmt: skip
    store.writer.insert_requests(rows, 1)
    for metric, each in (("nv_inference_count", 7.0), ("nv_inference_exec_count", 5.0)):
        points = [(from_ns + n * 15 * S, each * n) for n in range(20)]
        write(store, metric, points, "counter", instance="gpu-1:8002", model="sick")
    return Window(from_ns, from_ns + 300 * S)


@pytest.fixture
def fleet(db: None) -> None:
    """The pool as the worker saw it: it batches for 100 ms."""
    pool = stored_pool("sick-pool", "sick", "eu")
    Replica.objects.create(pool=pool, name="sick-0", grpc="gpu-1:8001", metrics="gpu-1:8002")
    Observation.objects.create(
        component="sick-pool/sick-0", kind="replica", state="up", observed_at="2026-11-21T00:00:00Z",
        figures={"batch_window_ms": 100.0, "batch_max": 16.0},
    )  # fmt: skip


def asked(window: Window) -> dict[str, str]:
    return {"from": str(window.from_ns), "to": str(window.to_ns)}


def test_the_api_names_them_with_evidence_and_remedies_the_costliest_first(
    caller: Client, annexed: Store, window: Window, fleet: None
) -> None:
    found: Any = caller.get("/api/v1/explain", asked(window)).json()
    assert [cause["name"] for cause in found["causes"]] == ["sick-replica", "batching-window-too-long"]
    sick, batching = found["causes"]
    assert sick["pool"] == "sick-pool"
    assert sick["summary"] == "sick-2 of sick-pool takes 4.0 times as long per token as its siblings"
    assert {"what": "sick-2: model time per token", "value": 80.0, "unit": "ms", "expected": 20.0} in sick["evidence"]
    assert sick["remedies"][0].startswith("Drain it")
    assert sick["url"] == "/causes#sick-replica"
    assert {"what": "mean batch", "value": 1.4, "unit": "requests", "expected": 16} in batching["evidence"]
    assert sick["cost_ms"] >= batching["cost_ms"] > 0
    assert "GPU utilisation" in found["unmeasured"]


def test_the_panel_says_them_and_leads_to_what_to_do(
    reader: Client, annexed: Store, window: Window, fleet: None
) -> None:
    page = page_of(reader, "/latency/explain", **asked(window))
    text = words_of(page)
    assert "Known cause sick-replica: sick-2 of sick-pool takes 4.0 times as long" in text
    assert "sick-2: model time per token 80.0 ms (without it 20.0 ms)" in text
    assert "mean batch 1.40 requests (without it 16 requests)" in text
    assert "Not measured, and not used for causes:" in text and "GPU utilisation" in text
    [link] = re.findall(r'href="([^"]+)"><strong>sick-replica', page)
    remedies = reader.get(link.partition("#")[0]).content.decode()
    assert 'id="sick-replica"' in remedies and "Drain it: no request is lost." in remedies
    assert re.search(r'href="/latency\?[^"]*pool=sick-pool"', page)


def test_traffic_in_which_none_shows_is_told_so(caller: Client, reader: Client, served: Filled) -> None:
    found: Any = caller.get("/api/v1/explain", served.range | {"model": "chat-small"}).json()
    assert found["causes"] == []
    page = reader.get("/latency/explain", served.range | {"model": "chat-small"}).content.decode()
    assert "None of the 10" in page


def test_without_requests_nothing_is_said_of_causes(caller: Client, reader: Client, served: Filled) -> None:
    nothing = {"from": "2026-01-01", "to": "2026-01-02"}
    found: Any = caller.get("/api/v1/explain", nothing).json()
    assert (found["causes"], found["unmeasured"], found["findings"]) == ([], [], [])
    assert (found["chosen"], found["rest"]) == (0, 0)
    assert found["nothing"] == "No answered request of this range is stored."
    assert "nown cause" not in reader.get("/latency/explain", nothing).content.decode()
