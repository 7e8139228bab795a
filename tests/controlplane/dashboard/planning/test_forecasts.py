"""Forecasts as a page: the series, its band and its record, and what it says where something is missing."""

import json
import re
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.test import Client

from controlplane.planning.models import DemoHistory, PlannedEvent, StoredForecast
from tests.support.planning.stored import store_change, store_forecasts, store_record
from tests.support.web.html import shown


@pytest.fixture
def stored(db: None) -> list[StoredForecast]:
    return store_forecasts()


get = partial(shown, "/planning")


def figure(text: str) -> dict[str, Any]:
    found = re.search(r'<script id="figure" type="application/json">(.*?)</script>', text)
    assert found
    drawn: dict[str, Any] = json.loads(found[1])
    return drawn


def test_the_series_with_the_highest_peak_is_drawn_with_its_bands(
    reader: Client, stored: list[StoredForecast], served: object
) -> None:
    status, text = get(reader)
    assert status == 200
    assert "<strong>chat-small, standard, eu</strong>" in text
    assert "Seasonal day</strong> forecasts it: It had the least loss." in text
    assert "of 28 days of demand, of which 3.3 % was not measured" in text
    names = [trace["name"] for trace in figure(text)["data"]]
    assert names[:5] == ["P5 to P95", "P5 to P95", "P10 to P90", "P10 to P90", "forecast, P50"]


def test_a_forecast_that_cannot_be_read_is_said_beside_the_others(
    reader: Client, stored: list[StoredForecast], served: object
) -> None:
    StoredForecast.objects.filter(model="chat-small").update(quantiles={"0.5": [1.0]})
    _, text = get(reader)
    assert "<strong>chat-large, standard, us</strong>" in text
    assert "▲ chat-small, standard, eu: Its stored forecast cannot be read" in text
    _, text = get(reader, model="chat-small", tier="standard", region="eu")
    assert "▲ chat-small, standard, eu: Its stored forecast cannot be read" in text and "No series passes" not in text


def test_filters_choose_the_series(reader: Client, stored: list[StoredForecast], served: object) -> None:
    status, text = get(reader, model="chat-large", tier="premium", region="eu", measure="input_tokens", horizon="168h")
    assert status == 200
    assert "<strong>chat-large, premium, eu</strong>" in text
    assert "tokens/s" in text and "7 days ahead" in text


def test_the_record_is_drawn_and_scored(reader: Client, stored: list[StoredForecast], served: object) -> None:
    row = stored[0]
    store_record(row)
    store_change(row)
    _, text = get(reader, model=row.model, tier=row.tier, region=row.region)
    names = [trace["name"] for trace in figure(text)["data"]]
    assert "forecast then" in names and "P90 then" in names
    assert "last value</td>" in text and "38 % below that of last value" in text


def test_each_candidate_says_why_it_is_not_used_and_the_one_that_is_stands_alone(
    reader: Client, stored: list[StoredForecast], served: object
) -> None:
    _, text = get(reader)
    assert text.count("● used") == 1
    for name, why in {
        "last value": "It is what others have to beat.",
        "holt": "Its skill is 3.0% ± 2.0%: 5% are needed, and not by chance.",
        "prophet": "Demand does not change: there is nothing to fit.",
    }.items():
        assert re.search(rf'<th scope="row">{name}</th>.*?<td class="reason">{re.escape(why)}</td>', text)
    StoredForecast.objects.update(candidate="seasonal_week", reason="Seasonal week stands in: …")
    assert '<th scope="row">seasonal day</th>' in (text := get(reader)[1])
    assert '<td class="reason">Seasonal week stands in, while it is more wrong than it was.</td>' in text


def test_stale_and_failed_forecasts_say_so(reader: Client, stored: list[StoredForecast], served: object) -> None:
    StoredForecast.objects.update(
        made_at=stored[0].made_at - timedelta(hours=5), start_s=int(time.time()) // 900 * 900 - 9000
    )
    _, text = get(reader)
    assert "▲ Stale: made" in text and "All of its steps are over." in text


def test_synthetic_history_is_said_so(reader: Client, stored: list[StoredForecast], served: object) -> None:
    now_s = int(time.time())
    DemoHistory.objects.create(from_s=now_s - 86_400, to_s=now_s, requests=1234, seed=1, complete=True)
    _, text = get(reader)
    assert "Synthetic history" in text and "demo_history --delete" in text


def test_planned_events_of_the_series_are_marked(reader: Client, stored: list[StoredForecast], served: object) -> None:
    for name, model in (("Spring launch", ""), ("Another model's", "nobody")):
        PlannedEvent.objects.create(name=name, model=model, start=stored[0].made_at, duration_s=3600)
    words = [note["text"] for note in figure(get(reader)[1])["layout"]["annotations"]]
    assert "Spring launch" in words and "Another model's" not in words


def test_without_the_store_the_forecast_is_still_shown(
    reader: Client, stored: list[StoredForecast], away: None
) -> None:
    status, text = get(reader)
    assert status == 200
    assert "The store does not answer." in text and 'id="figure"' in text


def test_filters_that_nothing_passes_are_said_so(reader: Client, stored: list[StoredForecast], served: object) -> None:
    status, text = get(reader, model="nobody")
    assert status == 200
    assert "No series passes these filters." in text
