"""A change that was posted is a mark on the charts of its time."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from django.test import Client
from django.utils import timezone

from controlplane.incidents.decide import engine
from controlplane.incidents.models import Incident
from controlplane.slo.core.count_plan import definition
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from controlplane.slo.save import save_objective
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.objectives import TALLY_SCHEMA
from tests.support.incidents.burning import SLOW, at_the_end
from tests.support.telemetry.stored_metrics import write
from tests.support.web.html import html_of
from tests.support.web.served import Filled


def post(caller: Client, at: datetime, **more: Any) -> None:
    posted = {"identity": "deploy/7", "summary": "chat-large 1.7", "source": "ci", "at": at.isoformat(), **more}
    response = caller.post("/api/v1/changes", json.dumps(posted), content_type="application/json")
    assert response.status_code in (200, 201), response.content


def assert_marked(page: str, at: datetime) -> None:
    [found] = re.findall(r'<script id="figure"[^>]*>(.*?)</script>', page, re.S)
    layout = json.loads(found)["layout"]
    [mark] = [each for each in layout["annotations"] if "chat-large 1.7" in each.get("hovertext", "")]
    assert mark["x"] == at.timestamp() * 1000
    [line] = [each for each in layout["shapes"] if each["type"] == "line" and each["xref"] == "x"]
    assert line["x0"] == mark["x"]
    assert "chat-large 1.7 (ci)" in page


@pytest.mark.parametrize("view", ["stages", "heatmap"])
def test_a_change_posted_by_api_is_marked_on_the_latency_chart(
    caller: Client, reader: Client, served: Filled, view: str
) -> None:
    at = datetime.fromtimestamp((served.from_ns + served.to_ns) / 2e9, UTC)
    post(caller, at)
    assert_marked(reader.get("/latency", {**served.range, "view": view}).content.decode(), at)


def test_it_is_marked_on_a_signals_chart(caller: Client, reader: Client, annexed: Store) -> None:
    at = timezone.now() - timedelta(minutes=5)
    now_ns = int(at.timestamp() * 1e9)
    samples = [(now_ns + second * 10**9, 1.0) for second in range(-60, 60, 15)]
    write(annexed, "marked_depth", samples, "gauge", job="marks", instance="one:1")
    post(caller, at)
    assert_marked(reader.get("/signals", {"metric": "marked_depth"}).content.decode(), at)


def test_it_is_marked_on_the_burn_down_of_what_it_touches(caller: Client, reader: Client, annexed: Store) -> None:
    at = timezone.now() - timedelta(hours=2)
    hour = int(at.timestamp()) // 3600
    for model in ("chat-large", "chat-small"):
        burning = Objective(f"{model}-fast", "Fast", Latency("e2e", 1.25), 0.9, {"model": model})
        save_objective(burning, who="olga")
        counted = {
            "definition": definition(burning),
            "hour": hour,
            "version": 1,
            "splits": ["[]"],
            "bad": [5],
            "total": [9],
        }
        annexed.objectives.insert_tallies(
            pa.table({name: [counted[name]] for name in TALLY_SCHEMA.names}, schema=TALLY_SCHEMA)
        )
    post(caller, at, scope={"model": "chat-large"})
    assert_marked(reader.get("/objectives/chat-large-fast").content.decode(), at)
    assert "chat-large 1.7" not in reader.get("/objectives/chat-small-fast").content.decode()


def test_it_is_marked_on_the_burn_chart_of_an_incident(caller: Client, reader: Client, served: Filled) -> None:
    engine.observe([at_the_end(served, SLOW)], datetime.fromtimestamp(served.to_ns // 10**9, UTC))
    path = f"/incidents/{Incident.objects.get().pk}"
    before = html_of(reader.get(path)).count('class="mark"')
    post(caller, datetime.fromtimestamp((served.from_ns + served.to_ns) / 2e9, UTC))
    page = html_of(reader.get(path))
    assert page.count('class="mark"') == before + 1
    assert "chat-large 1.7 (ci)" in page
