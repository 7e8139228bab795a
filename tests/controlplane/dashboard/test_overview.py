"""The overview's cards of components."""

import re

import pytest
from django.test import Client

from controlplane.dashboard.core.zone import clock
from controlplane.dashboard.views.overview import figures, pools_context
from controlplane.fleet.core.stack_rows import Row
from controlplane.fleet.models import Replica
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import Store
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.samples import S, row
from tests.support.web.html import page_of, words_of
from tests.support.web.served import Filled


def test_a_rate_that_a_card_begins_with_is_not_listed_again() -> None:
    row = Row(
        "telemetry", "Telemetry", "telemetry", "up", rate_per_s=12.0, figures={"spans_per_s": 12.0, "spool_bytes": 3e6}
    )
    assert [name for name, _ in figures(row)] == ["spool"]


def test_of_many_pools_those_that_are_not_up_come_first_and_others_are_one_row() -> None:
    rows = [
        each
        for n in range(60)
        for state in [("degraded" if n == 50 else "up")]
        for each in (
            Row(f"pool:p{n}", f"p{n}", "pool", state),
            Row(f"p{n}/r", "r", "replica", "down" if n == 50 else "up"),
        )
    ]
    shown = pools_context(rows)
    assert [each["row"].name for each in shown["pools"][:3]] == ["p50", "r", "p0"]
    assert (len(shown["pools"]), shown["replicas_left_out"]) == (61, 59)
    few = pools_context(rows[:20])
    assert (len(few["pools"]), few["replicas_left_out"]) == (20, 0)


def test_a_table_by_replica_says_which_attempt_counts(reader: Client, served: Filled) -> None:
    said = "counts for the replica of its last attempt"
    assert said in reader.get("/latency", {**served.range, "by": "replica"}).content.decode()
    assert said not in reader.get("/latency", {**served.range, "by": "model"}).content.decode()


MINUTE_NS = 60 * S
FIRST_NS = 1_795_000_000 * S


@pytest.fixture
def young(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A ledger whose first request entered at FIRST_NS, with a request a second for a minute."""
    store.writer.insert_requests([row(n + 1, entry_start_ns=FIRST_NS + n * S) for n in range(60)], version=1)
    monkeypatch.setattr(answers, "store", lambda: store)
    return store


@pytest.mark.usefixtures("young")
def test_the_covered_part_of_a_window_is_from_the_first_request_until_now() -> None:
    window = Window(FIRST_NS - 9 * MINUTE_NS, FIRST_NS + MINUTE_NS)
    assert answers.covered_ns(window, window.to_ns) == MINUTE_NS
    assert answers.covered_ns(window, FIRST_NS + 20 * S) == 20 * S
    assert answers.covered_ns(window, FIRST_NS) == S, "a rate is over a second at least"
    assert answers.covered_ns(Window(FIRST_NS + S, window.to_ns), window.to_ns) == 59 * S
    assert answers.covered_ns(Window(window.from_ns, FIRST_NS), FIRST_NS) == 0


@pytest.mark.usefixtures("young")
def test_the_rate_is_not_averaged_over_the_time_before_the_first_request(reader: Client) -> None:
    asked = {"from": str(FIRST_NS - 9 * MINUTE_NS), "to": str(FIRST_NS + MINUTE_NS)}
    html = page_of(reader, "/", **asked)
    page = words_of(html)
    assert f"60 in all, since {clock(FIRST_NS)} UTC: the ledger begins there" in page
    drawn = re.search(r'class="spark"[^>]*><path d="M([0-9.]+) ', html)
    assert drawn is not None and float(drawn[1]) > 70, (
        "no line is drawn through the nine minutes of which nothing is known"
    )
    assert "1.00 /s" in page


def test_requests_that_came_late_count_with_the_time_in_which_they_were_served(young: Store, reader: Client) -> None:
    """Gateways keep spans while telemetry is down. Here it is down for ten minutes, of which they lost the last two."""
    begin_s = FIRST_NS // S // 300 * 300 - 3_600
    young.rollups.insert_recorded({begin_s: 300.0, begin_s + 900: 300.0})
    kept = [at for at in range(0, 1_200, 10) if not 780 <= at < 900]
    young.writer.insert_requests([row(1_000 + at, entry_start_ns=(begin_s + at) * S) for at in kept], 1)
    asked = {"from": str(begin_s * S), "to": str((begin_s + 1_200) * S)}
    overview = words_of(page_of(reader, "/", **asked))
    assert "requests 6.00 /min 108 in all, in the 18 min that were measured" in overview
    assert "clients gateway requests 6.00 /min" in words_of(page_of(reader, "/map", **asked))


@pytest.mark.parametrize(
    ("received_s", "lines", "rate"),
    [
        ((300, 300, 300, 300), 1, "3.33 /min"),  # 61 requests in 1,100 s
        ((300, 0, 0, 300), 2, "7.32 /min"),  # in 500 s
        ((300, 200, 300, 300), 2, "3.66 /min"),  # in 1,000 s
    ],
)
def test_no_request_is_zero_only_where_one_would_have_been_seen(
    young: Store, reader: Client, received_s: tuple[int, ...], lines: int, rate: str
) -> None:
    begin_s = FIRST_NS // S // 300 * 300
    young.writer.insert_requests([row(99, entry_start_ns=(begin_s + 1190) * S)], 1)
    young.rollups.insert_recorded({begin_s + 300 * at: float(seconds) for at, seconds in enumerate(received_s)})
    asked = {"from": str(begin_s * S), "to": str((begin_s + 1200) * S)}
    html = page_of(reader, "/", **asked)
    drawn = re.search(r'class="spark"[^>]*><path d="([^"]+)"', html)
    assert drawn is not None and drawn[1].count("M") == lines
    assert f"requests {rate} 61 in all" in words_of(html) and ("that were measured" in words_of(html)) == (lines > 1)
    assert f"clients gateway requests {rate}" in words_of(page_of(reader, "/map", **asked))
    by_step = page_of(reader, "/cache", **asked).partition("Requests by step")[2].partition("</table>")[0]
    since_first = "".join(re.findall(r'<td class="n">([^<]+)', by_step)).lstrip("–")
    assert ("–" in since_first) == (lines > 1) and "0" in since_first


def test_a_time_without_requests_is_none_of_them_only_while_telemetry_received(young: Store, reader: Client) -> None:
    begin_s = FIRST_NS // S // 300 * 300
    asked = {"from": str((begin_s + 300) * S), "to": str((begin_s + 600) * S)}
    page, service_map = (words_of(page_of(reader, path, **asked)) for path in ("/", "/map"))
    assert page.count("– not known: telemetry did not receive all the time") == 6 and "0 in all" not in page
    assert "0 /s" not in service_map
    young.rollups.insert_recorded({begin_s + 300: 300.0})
    page = words_of(page_of(reader, "/", **asked))
    assert "not known: telemetry" not in page and "requests 0 /s 0 in all" in page
    assert "0 /s" in words_of(page_of(reader, "/map", **asked))


@pytest.mark.usefixtures("young")
@pytest.mark.parametrize(
    ("address", "says"),
    [
        ({"url": "http://10.0.0.7:8000/v1"}, "Started in front of http://10.0.0.7:8000/v1: there are no demo models"),
        ({"grpc": "127.0.0.1:7000"}, "These are demo models: their timing is a GPU's"),
    ],
)
def test_what_the_launcher_started_is_said(reader: Client, address: dict[str, str], says: str) -> None:
    replica = Replica.objects.create(pool=stored_pool(), name="r0", **address)
    assert says not in reader.get("/").content.decode(), "an owner's own servers need no such words"
    replica.managed_by = Replica.ManagedBy.LAUNCHER
    replica.save()
    assert says in reader.get("/").content.decode()
