"""Times in the zone of the reader's choice, on screens and from calendar fields."""

import html
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from controlplane.dashboard.core import zone
from controlplane.dashboard.core.figures.layout import layout, shaded, x_axis
from controlplane.telemetry.query.core.errors import BadQuestionError
from tests.support.web.served import Filled

BERLIN = ZoneInfo("Europe/Berlin")
HOUR_MS = 3_600_000
TEMPLATES = Path(__file__).parents[4] / "templates"


@pytest.fixture
def in_berlin() -> Iterator[None]:
    zone.use(BERLIN)
    yield
    zone.use(UTC)


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 10**9


def test_an_hour_that_clocks_show_twice_says_which_it_is(in_berlin: None) -> None:
    assert [zone.minute(ns(f"2026-10-25T0{hour}:30Z")) for hour in range(3)] == [
        "2026-10-25 02:30 CEST", "2026-10-25 02:30 CET", "2026-10-25 03:30",
    ]  # fmt: skip
    assert zone.clock(ns("2026-07-01T12:00Z")) == "14:00:00"
    written = Template("{% load weir %}{{ at|date:'H:i' }}")
    at = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    with timezone.override(BERLIN):
        assert [written.render(Context({"at": at - timedelta(hours=back)})) for back in (1, 0, 5)] == [
            "02:30 CEST", "02:30 CET", "22:30",
        ]  # fmt: skip
    assert written.render(Context({"at": None})) == ""


def test_every_template_with_a_time_says_which_of_two_hours() -> None:
    dated = [path for path in TEMPLATES.rglob("*.html") if re.search(r"\|date:.[^c]", path.read_text())]
    assert dated and all(re.search(r"{% load [^%]*\bweir\b", path.read_text()) for path in dated)


@pytest.mark.parametrize(
    ("text", "later", "utc"),
    [
        ("2026-10-25T02:30", False, "2026-10-25T00:30+00:00"),
        ("2026-10-25T02:30", True, "2026-10-25T01:30+00:00"),
        ("2026-03-29T03:30", False, "2026-03-29T01:30+00:00"),
        ("2026-01-01", False, "2025-12-31T23:00+00:00"),
    ],
)
def test_a_time_without_an_offset_is_of_the_zone(text: str, later: bool, utc: str) -> None:
    assert zone.read("from", text, BERLIN, later) == datetime.fromisoformat(utc)


def test_a_time_that_clocks_skip_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(BadQuestionError, match=r"does not exist in Europe/Berlin.*Write 2026-03-29T03:30"):
        zone.read("from", "2026-03-29T02:30", BERLIN)


def test_a_chart_over_a_change_of_the_clocks_has_each_hour_once_and_says_its_offset(in_berlin: None) -> None:
    from_ns, to_ns = ns("2026-10-24T22:00Z"), ns("2026-10-25T04:00Z")
    x = [from_ns / 1e6 + hour * HOUR_MS for hour in range(6)]
    given = {
        "data": [{"type": "scatter", "x": x}],
        "layout": layout(
            height=1, uirevision="", xaxis=x_axis(from_ns, to_ns), shapes=[shaded(x[0] / 1000, x[1] / 1000)]
        ),
    }
    shown = zone.shifted(given)
    assert shown["data"][0]["x"] == [at + HOUR_MS for at in x]
    assert shown["layout"]["xaxis"]["title"]["text"] == "Europe/Berlin, UTC+01:00"
    assert shown["layout"]["xaxis"]["hoverformat"] == "%H:%M:%S Europe/Berlin"
    assert shown["layout"]["shapes"][0]["x0"] == x[0] + HOUR_MS
    assert shown["layout"]["meta"] == {"offset_ms": HOUR_MS}
    zone.use(UTC)
    assert zone.shifted(given) == given


@pytest.mark.parametrize("path", ["/latency", "/requests", "/map", "/signals", "/incidents/review"])
def test_a_range_from_a_calendar_becomes_absolute_and_is_shown_in_its_zone(
    reader: Client, served: Filled, path: str
) -> None:
    asked = f"{path}?tz=Europe/Berlin&from_at=2026-07-01T14:05&to_at=2026-07-01T15:05"
    moved = reader.get(asked)
    assert moved.status_code == 302
    assert "from=2026-07-01T12:05:00Z" in moved["Location"]
    assert "from_at" not in moved["Location"]
    page = reader.get(moved["Location"])
    text = page.content.decode()
    assert page.status_code == 200
    assert 'name="tz" value="Europe/Berlin"' in text
    partly = reader.get(asked, headers={"hx-request": "true"})
    assert partly["HX-Replace-Url"] == moved["Location"]


def test_a_kept_zone_holds_on_every_page_and_that_of_the_url_comes_before_it(reader: Client, served: Filled) -> None:
    back = reader.post("/zone", {"zone": "Asia/Tokyo", "next": "/latency?tz=Europe/Berlin&from=now-1h"})
    assert back["Location"] == "/latency?from=now-1h"
    figure = re.search(r'id="figure" type="application/json">(.*?)</script>', reader.get("/latency").content.decode())
    assert figure
    assert json.loads(figure[1])["layout"]["xaxis"]["title"]["text"] == "Asia/Tokyo, UTC+09:00"
    linked = reader.get("/latency?tz=Europe/Berlin&model=chat-small").content.decode()
    assert "Europe/Berlin, UTC" in linked
    [lifted] = re.findall(r'href="([^"]*)" title="Lift the time zone', linked)
    assert lifted == "/latency?model=chat-small" and "Asia/Tokyo, UTC" in reader.get(lifted).content.decode()
    at = f"{datetime.fromtimestamp(served.rows[-1].entry_start_ns // 10**9, ZoneInfo('Asia/Tokyo')):%Y-%m-%d}"
    listed = reader.get("/requests?tz=Asia/Tokyo").content.decode()
    assert at in listed
    [csv, _] = re.findall(r'href="(/api/v1/requests\.[^"]*)"', listed)
    assert reader.get(html.unescape(csv)).status_code == 200


def test_a_zone_that_does_not_exist_is_refused_with_the_nearest(reader: Client, served: Filled) -> None:
    answer = reader.get("/incidents?tz=Europe/Berln")
    assert answer.status_code == 400
    assert "Did you mean Europe/Berlin" in answer.content.decode()
    reader.post("/zone", {"zone": "Mars/Base", "next": "/latency"})
    said = reader.get("/latency")
    assert "is not the name of a time zone" in said.content.decode()
    reader.cookies["weir_zone"] = "Mars/Base"
    assert reader.get("/latency").status_code == 200


def test_no_template_says_utc_of_a_time_that_follows_the_reader() -> None:
    parts = [path for folder in ("incidents", "dashboard") for path in (TEMPLATES / folder).rglob("*.html")]
    saying = {path.name for path in parts if re.search(r"\bUTC\b", path.read_text().replace("day, UTC", ""))}
    assert parts and saying == {"_worksheet.html"}  # its months are those of UTC
