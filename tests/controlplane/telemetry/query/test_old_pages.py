"""Long pages of a time whose requests are no longer kept show what the rollups have."""

import re
import time
from typing import Any
from urllib.parse import unquote

import pytest
from django.test import Client

from controlplane.core.formatting import instant, minute
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.read.retained import Kept, kept_step_s, rounded
from tests.support.telemetry.rollups import fill
from tests.support.telemetry.samples import S, row
from tests.support.web.html import words_of

DAY_S = 86_400
HOUR_NS = 3600 * S
NOW_S = int(time.time())
FROM_NS = (NOW_S // DAY_S - 8) * DAY_S * S
DAY = Window(FROM_NS, FROM_NS + 24 * HOUR_NS)
REQUESTS = 5


def aged(store: Store) -> Store:
    """A day of which the store has dropped requests and short steps, as its TTLs do."""
    rows = [row(number, entry_start_ns=FROM_NS + 4 * number * HOUR_NS) for number in range(1, REQUESTS + 1)]
    store.writer.insert_requests(rows, version=1)
    fill(store, NOW_S * S)
    store.command("TRUNCATE TABLE requests")
    store.command("DELETE FROM rollups WHERE step_s < 43200")
    return store


@pytest.fixture(scope="module")
def aged_store(shared_store: Store) -> Store:
    return aged(shared_store)


@pytest.fixture
def old(aged_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages ask the store of such a day."""
    monkeypatch.setattr(answers, "store", lambda: aged_store)


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


ROUNDED: list[tuple[dict[str, str], float, float, tuple[int, int]]] = [
    ({}, 2.4, 25.4, (2, 26)),
    ({"model": "small", "tier": "standard"}, 2.4, 26.4, (0, 36)),
    ({"model": "small", "tier": "standard"}, 7.5, 9.5, (0, 12)),
    ({"model": "small"}, 7.5, 9.5, (7, 10)),
]
"""Filters, a range in hours, and the range that rollups of it have."""


@pytest.mark.usefixtures("old")
def test_a_range_between_the_steps_that_are_kept_is_rounded_to_them(caller: Client, reader: Client) -> None:
    for filters, from_h, to_h, shown_h in ROUNDED:
        asked = {"from": str(FROM_NS + int(from_h * HOUR_NS)), "to": str(FROM_NS + int(to_h * HOUR_NS))} | filters
        within = sum(shown_h[0] <= 4 * number < shown_h[1] for number in range(1, REQUESTS + 1))
        series: dict[str, Any] = caller.get("/api/v1/latency/series", asked).json()
        report: dict[str, Any] = caller.get("/api/v1/latency", asked).json()
        for answer in (series, report):
            assert [(answer[name] - FROM_NS) / HOUR_NS for name in ("from_ns", "to_ns")] == list(shown_h)
            assert not answer["exact"]
        assert sum(point["requests"] for point in series["points"]) == report["requests"] == within
        begins, ends = (minute(FROM_NS + hour * HOUR_NS) for hour in shown_h)
        for path in ("/latency", "/"):
            page = words_of(reader.get(path, asked).content.decode())
            assert f"is of {begins} to {ends} UTC: its ends are rounded" in page
            assert f"{within} in all" in page or f"{within} request" in page
            assert "The ledger has no requests, and rollups from" in page


def test_what_only_stored_requests_can_answer_says_since_when_they_are_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch, caller: Client
) -> None:
    aged(store)
    monkeypatch.setattr(answers, "store", lambda: store)
    first_ns, to_ns = (NOW_S - 3 * DAY_S) * S, NOW_S // 3600 * 3600 * S
    store.writer.insert_requests([row(90 + at, entry_start_ns=first_ns + at * HOUR_NS) for at in range(2)], version=1)
    for from_ns, more in (
        (FROM_NS, {"group_by": "model"}),
        (FROM_NS, {"tenant": "acme"}),
        (first_ns - HOUR_NS, {"to": str(first_ns + 2 * HOUR_NS)}),
    ):
        report = caller.get("/api/v1/latency", {"from": str(from_ns), "to": str(to_ns)} | more).json()
        assert (report["from_ns"], report["requests"]) == (first_ns, 2), more
    assert caller.get("/api/v1/latency", {"from": str(FROM_NS), "to": str(to_ns)}).json()["requests"] == REQUESTS + 2
    by_tenant = caller.get("/api/v1/latency/series", {"from": str(FROM_NS), "to": str(to_ns), "tenant": "acme"}).json()
    assert (by_tenant["from_ns"], sum(point["requests"] for point in by_tenant["points"])) == (first_ns, 2)
    asked = {"from": str(DAY.from_ns), "to": str(DAY.to_ns), "group_by": "model"}
    answer = caller.get("/api/v1/latency", asked).json()
    assert (answer["from_ns"], answer["requests"], answer["groups"]) == (answer["to_ns"], 0, {})


def test_the_map_is_of_stored_requests_alone_of_which_replicas_are_known(
    store: Store, monkeypatch: pytest.MonkeyPatch, reader: Client
) -> None:
    aged(store)
    monkeypatch.setattr(answers, "store", lambda: store)
    first_ns = (NOW_S - 3 * DAY_S) * S
    store.writer.insert_requests([row(90 + at, entry_start_ns=first_ns + at * HOUR_NS) for at in range(2)], version=1)
    for to_ns, number in ((NOW_S * S, 2), (DAY.to_ns, 0)):
        answer = reader.get("/map", {"from": str(FROM_NS), "to": str(to_ns)})
        assert answer.context["report"].requests == number
        assert "Only requests that are stored count here" in words_of(answer.content.decode())


@pytest.mark.usefixtures("old")
def test_a_series_in_shorter_steps_than_are_kept_is_refused(caller: Client) -> None:
    for step_s, status in ((1800, 409), (5400, 409), (3600, 200), (7200, 200)):
        asked = {"from": str(DAY.from_ns), "to": str(DAY.to_ns), "step_s": str(step_s)}
        answer = caller.get("/api/v1/latency/series", asked)
        assert answer.status_code == status, step_s
        if status == 200:
            assert sum(point["requests"] for point in answer.json()["points"]) == REQUESTS
        else:
            assert "Use 3600 or a multiple of it" in str(answer.json())


def test_late_requests_of_many_moments_hide_nothing_that_only_rollups_have(
    store: Store, monkeypatch: pytest.MonkeyPatch, caller: Client
) -> None:
    aged(store)
    monkeypatch.setattr(answers, "store", lambda: store)
    first_ns, late = (NOW_S - 2 * DAY_S) * S, 25
    store.writer.insert_requests(
        [row(100 + at, entry_start_ns=first_ns + at * HOUR_NS) for at in range(late)], version=1
    )
    report = caller.get("/api/v1/latency", {"from": str(FROM_NS), "to": "now"}).json()
    assert report["requests"] == REQUESTS + late


@pytest.mark.usefixtures("old")
def test_lists_of_requests_say_that_they_are_gone_and_filters_know_their_values(reader: Client) -> None:
    asked = {"from": str(DAY.from_ns), "to": str(DAY.to_ns)}
    page = words_of(reader.get("/requests", asked).content.decode())
    assert "No request of this range is kept by itself; counts and times are on the latency page" in page
    assert " 0 requests latency of these" in page, "the list and its exports have none of those that rollups count"
    assert '<option value="small"' in reader.get("/latency", asked).content.decode()
    assert "No answered request of this range is stored" in reader.get("/latency/explain", asked).content.decode()
    page = words_of(reader.get("/latency", asked | {"tenant": "acme"}).content.decode())
    assert "Rollups have no tenant: with this filter only stored requests are counted" in page


def test_each_page_says_from_when_on_there_are_requests_and_rollups(
    store: Store, monkeypatch: pytest.MonkeyPatch, reader: Client
) -> None:
    aged(store)
    monkeypatch.setattr(answers, "store", lambda: store)
    first_ns = (NOW_S - 3 * DAY_S) * S
    store.writer.insert_requests([row(99, entry_start_ns=first_ns)], version=1)
    ends = f"The ledger has requests from {minute(first_ns)} UTC on, and rollups from {minute(FROM_NS + 4 * HOUR_NS)} UTC on."
    before = {"from": str(FROM_NS - 48 * HOUR_NS), "to": str(FROM_NS - 24 * HOUR_NS)}
    for path in ("/", "/latency", "/requests"):
        page = reader.get(path, before).content.decode()
        assert f"Nothing is kept of this range. {ends}" in words_of(page), path
        assert "the ledger is empty" not in page
        assert f'href="{path}?from={instant(first_ns // 60 // S * 60 * S)}' in unquote(page)
    across = {"from": str(first_ns - HOUR_NS), "to": str(first_ns + HOUR_NS)}
    short = "Before the first request there are rollups alone, which ranges of more than 6 hours show."
    assert f"{short} {ends}" in words_of(reader.get("/latency", across).content.decode())
    recent = words_of(reader.get("/", {"from": str(first_ns), "to": "now"}).content.decode())
    assert "The ledger has requests" not in recent
    assert "1 in all" in recent


def test_a_store_without_anything_is_empty(store: Store, monkeypatch: pytest.MonkeyPatch, reader: Client) -> None:
    monkeypatch.setattr(answers, "store", lambda: store)
    page = words_of(reader.get("/").content.decode())
    assert "the ledger is empty" in page
    assert "The ledger has" not in page


REQUESTS_NS = (NOW_S // DAY_S - 5) * DAY_S * S
KEPT = Kept(requests_ns=REQUESTS_NS, rollups_ns=(NOW_S // DAY_S - 90) * DAY_S * S)


@pytest.mark.parametrize(
    ("age_days", "length_h", "filters", "step_s"),
    [
        (20, 24, {"tier": ("batch",)}, 3600),
        (20, 24, {"tier": ("batch",), "model": ()}, 3600),
        (20, 24, {"tier": ("batch",), "model": ("small",)}, 43_200),
        (6, 24, {"tier": ("batch",), "model": ("small",)}, 3600),
        (4, 24, {}, 1),
        (20, 6, {}, 3600),
        (20, 24, {"tenant": ("acme",)}, 1),
        (100, 24, {}, 1),
    ],
)
def test_steps_are_as_short_as_what_is_kept(age_days: int, length_h: int, filters: Any, step_s: int) -> None:
    from_ns = (NOW_S - age_days * DAY_S) * S
    window = Window(from_ns, from_ns + length_h * HOUR_NS)
    assert kept_step_s(window, filters, NOW_S, KEPT) == step_s
    whole = rounded(window, filters, NOW_S, KEPT)
    assert whole.from_ns <= window.from_ns
    assert whole.to_ns >= window.to_ns
    assert whole.from_ns % (step_s * S) == 0 or step_s == 1
    if whole.to_ns <= REQUESTS_NS:
        assert whole.to_ns % (step_s * S) == 0 or step_s == 1


def test_the_end_of_a_range_that_has_requests_stays() -> None:
    window = Window(REQUESTS_NS - 20 * HOUR_NS - 1, REQUESTS_NS + 77)
    assert rounded(window, {}, NOW_S, KEPT) == Window(REQUESTS_NS - 21 * HOUR_NS, window.to_ns)
    young = Kept(REQUESTS_NS + 1800 * S, REQUESTS_NS)
    assert rounded(window, {}, NOW_S, young) == window, "the first hour of rollups is that of the first request"


GROUPED: list[tuple[dict[str, str], tuple[int, int], tuple[int, int] | str, int]] = [
    ({}, (0, 24), "", REQUESTS),
    ({"by": "region"}, (2, 23), "", REQUESTS),
    ({"by": "tier", "model": "small"}, (2, 11), (0, 12), 2),
    ({"by": "tenant"}, (0, 24), "None of these requests is stored by itself, and rollups have no tenant.", 0),
]
"""Parameters of the latency page, a range in hours, what its groups are of where it is another, and how many requests they have."""


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize(("more", "hours", "said", "number"), GROUPED)
def test_groups_say_which_time_they_are_of_where_it_is_not_the_pages(
    reader: Client, more: dict[str, str], hours: tuple[int, int], said: tuple[int, int] | str, number: int
) -> None:
    begin, end = (str(FROM_NS + hour * HOUR_NS) for hour in hours)
    answer = reader.get("/latency", {"from": begin, "to": end} | more)
    assert sum(group["requests"] for group in answer.context["groups"]) == number
    if not isinstance(said, str):
        first, last = (minute(FROM_NS + hour * HOUR_NS) for hour in said)
        said = f"Of the requests from {first} to {last} UTC: rollups by tier and the filters are kept by the half day."
    assert answer.context["groups_of"] == said
    assert said in words_of(answer.content.decode())


@pytest.mark.usefixtures("old")
def test_groups_of_the_other_side_are_of_the_time_that_is_kept_and_it_is_said(reader: Client) -> None:
    """They were of no time that rollups have: a half day was cut in two."""
    begin, end = (str(FROM_NS + hour * HOUR_NS) for hour in (11, 20))
    asked = {"from": begin, "to": end, "by": "tier", "model": "small", "compare": "previous"}
    answer = reader.get("/latency", asked)
    first, last = (minute(FROM_NS + hour * HOUR_NS) for hour in (0, 12))
    said = f"Of the requests from {first} to {last} UTC: rollups by tier and the filters are kept by the half day."
    assert answer.context["compared"]["groups_of"] == said
    assert f"The time just before: {said}" in words_of(answer.content.decode())
    [segment] = answer.context["compared"]["segments"]
    assert segment["part"].share_then == 1.0
    whole = reader.get("/latency", {"from": str(DAY.from_ns), "to": str(DAY.to_ns), "compare": "previous"})
    assert whole.context["compared"]["groups_of"] == ""
