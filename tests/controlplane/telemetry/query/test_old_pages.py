"""Long pages of a time whose requests are no longer kept show what the rollups have."""

import re
import time
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.maintenance.rollups import together
from controlplane.telemetry.store.read.rollups import kept_step_s
from tests.support.telemetry.samples import S, row

DAY_S = 86_400
HOUR_NS = 3600 * S
NOW_S = int(time.time())
FROM_NS = (NOW_S // DAY_S - 8) * DAY_S * S
DAY = Window(FROM_NS, FROM_NS + 24 * HOUR_NS)
KEPT_DAYS, REQUESTS = 5, 5


@pytest.fixture
def old(store: Store, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """A day of which the store has dropped requests and short steps, as its TTLs do."""
    rows = [row(number, entry_start_ns=FROM_NS + 4 * number * HOUR_NS) for number in range(1, REQUESTS + 1)]
    store.insert_requests(rows, version=1)
    while due := [each for each in store.due_rollups(NOW_S * S, 30) if each.tier.kind == "rollups"]:
        assert sum(store.fill_rollups(stretches, NOW_S * S) for stretches in together(due))
    store.command("TRUNCATE TABLE requests")
    store.command("DELETE FROM rollups WHERE step_s < 43200")
    monkeypatch.setattr(answers, "store", lambda: store)
    settings.CONFIG = settings.CONFIG.model_copy(update={"retention_days": KEPT_DAYS})


@pytest.mark.usefixtures("old")
def test_pages_of_a_time_without_requests_have_the_steps_that_are_kept(caller: Client, reader: Client) -> None:
    asked = {"from": str(DAY.from_ns), "to": str(DAY.to_ns)}
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 3600),
        ({"model": "small", "status": "ok"}, 3600),
        ({"model": "small", "tier": "standard"}, 43_200),
    ]
    for filters, step_s in cases:
        answer: dict[str, Any] = caller.get("/api/v1/latency/series", asked | filters).json()
        assert sum(point["requests"] for point in answer["points"]) == REQUESTS, filters
        assert answer["step_ns"] == step_s * S
    page = reader.get("/latency/table", asked).content.decode()
    assert len(re.findall(r"<tr", page)) > REQUESTS
    assert f"{REQUESTS} requests." in reader.get("/latency", asked).content.decode()


@pytest.mark.parametrize(
    ("age_days", "length_h", "filters", "step_s"),
    [
        (20, 24, {"tier": ("batch",)}, 3600),
        (20, 24, {"tier": ("batch",), "model": ()}, 3600),
        (20, 24, {"tier": ("batch",), "model": ("small",)}, 43_200),
        (6, 24, {"tier": ("batch",), "model": ("small",)}, 3600),
        (4, 24, {}, 1),
        (20, 6, {}, 1),
        (20, 24, {"tenant": ("acme",)}, 1),
    ],
)
def test_steps_are_as_short_as_what_is_kept(age_days: int, length_h: int, filters: Any, step_s: int) -> None:
    from_ns = (NOW_S - age_days * DAY_S) * S
    assert kept_step_s(Window(from_ns, from_ns + length_h * HOUR_NS), filters, NOW_S, KEPT_DAYS) == step_s
