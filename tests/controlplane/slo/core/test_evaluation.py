"""State, severity, budget and words of an evaluation, out of counts made up by hand."""

import math
from dataclasses import replace
from datetime import datetime

import pytest

from controlplane.slo.core.alert import MAX_KEY_CHARS, alert_key, slug_of
from controlplane.slo.core.counts import Counts
from controlplane.slo.core.evaluation import Counted, elapsed_s, evaluate, unjudged
from controlplane.slo.core.maintenance_windows import MaintenanceWindow
from controlplane.slo.core.objective import Calendar, Objective, Rolling
from controlplane.slo.core.period import SECOND_NS, Span
from controlplane.slo.core.sli import Availability
from controlplane.slo.core.windows import DAY_S, HOUR_S, BurnWindow

AT_S = 1_000 * DAY_S
UP = Objective("up", "", Availability(), 0.9, period=Rolling(10 * DAY_S), windows=(
    BurnWindow("page", HOUR_S, 300, 0.02), BurnWindow("ticket", DAY_S, 2 * HOUR_S, 0.2),  # at burn rates of 4.8 and 2
))  # fmt: skip
CALM, TICKET, PAGE = Counts(9, 100), Counts(30, 100), Counts(60, 100)


def counted(worst: Counts, since_s: int = 0, *, day: Counts | None = None, recorded_s: int | None = None) -> Counted:
    windows = {300: worst, HOUR_S: worst, 2 * HOUR_S: worst, DAY_S: day or worst}
    return Counted(windows, Counts(5, 100), since_s, recorded_s)


@pytest.mark.parametrize(
    ("given", "why", "state", "severity", "says", "rate"),
    [
        (counted(CALM), "", "quiet", None, "", 0.9),
        (counted(TICKET), "", "firing", "ticket", "", 3.0),
        (counted(PAGE), "", "firing", "page", "", 6.0),
        (counted(PAGE), "stale", "unknown", None, "stale", None),
        (counted(CALM), "stale", "unknown", None, "stale", None),
        (counted(CALM, AT_S - DAY_S), "", "quiet", None, "", 0.9),
        (counted(CALM, AT_S - DAY_S + 1), "", "unknown", None, "its history is still being counted", None),
        (counted(TICKET, AT_S - DAY_S + 1), "", "unknown", None, "its history is still being counted", None),
        (counted(PAGE, AT_S - HOUR_S), "", "firing", "page", "", 6.0),
        (counted(CALM, day=Counts(19, 100)), "", "quiet", None, "", 1.9),  # of the longest window
        (counted(Counts()), "", "quiet", None, "", None),
    ],
)
def test_a_state_is_what_the_windows_say_that_are_known(
    given: Counted, why: str, state: str, severity: str | None, says: str, rate: float | None
) -> None:
    made = evaluate(UP, {}, given, AT_S * SECOND_NS, (), why)
    alert = made.alert
    assert (alert.state, alert.severity, made.why, alert.maintenance) == (state, severity, says, False)
    assert made.period == Span((AT_S - 10 * DAY_S) * SECOND_NS, AT_S * SECOND_NS)
    assert alert.budget is not None
    assert (alert.budget.allowed, alert.budget.left_share) == (pytest.approx(10), pytest.approx(0.5))
    lasts_s = None if rate is None else math.inf if rate <= 1 else 0.5 * 10 * DAY_S / rate
    assert alert.lasts_s == (lasts_s if lasts_s is None else pytest.approx(lasts_s))


def test_what_a_page_shows_of_it() -> None:
    document = replace(evaluate(UP, {}, counted(TICKET, 7, recorded_s=9), AT_S * SECOND_NS, ()), note="n").document()
    [page, ticket], left = document.pop("verdicts"), document.pop("budget")
    assert left == {"allowed": pytest.approx(10), "bad": 5, "left_share": pytest.approx(0.5)}
    assert (page["fires"], ticket["fires"], ticket["long"], ticket["threshold"]) == (
        False,
        True,
        *map(pytest.approx, (3, 2)),
    )
    assert (ticket["severity"], round(ticket["short"], 9), ticket["long_s"], ticket["enough_events"]) == (
        "ticket",
        3.0,
        DAY_S,
        True,
    )
    assert document == {
        "lasts_s": pytest.approx((5 * DAY_S - 9) / 3, rel=1e-3), "bad": 5, "total": 100, "sli": 0.95,
        "period_from_ns": (AT_S - 10 * DAY_S) * SECOND_NS, "period_to_ns": AT_S * SECOND_NS, "counted_since_s": 7, "recorded_since_s": 9,
        "revision": 1, "why": "", "note": "n", "unmeasured": None,
    }  # fmt: skip
    assert evaluate(UP, {}, counted(CALM), AT_S * SECOND_NS, ()).document()["lasts_s"] is None
    none = unjudged(UP, {"model": "a"}, AT_S * SECOND_NS, "no").document()
    assert (none["sli"], none["budget"], none["why"], none["verdicts"]) == (None, None, "no", [])
    broken = replace(UP, period=Calendar("day", datetime(2026, 1, 1), "UTC", 0))
    assert unjudged(broken, {}, 5, "no").period == Span(5, 5)


@pytest.mark.parametrize(
    ("start_s", "scope", "covered"),
    [(-59, {}, True), (0, {}, True), (1, {}, False), (-60, {}, False), (0, {"model": "a"}, False)],
)
def test_an_alert_within_maintenance_is_marked(start_s: int, scope: dict[str, str], covered: bool) -> None:
    window = MaintenanceWindow("w", datetime(1972, 9, 27), "UTC", 60, scope=scope)
    assert evaluate(UP, {}, counted(CALM), (AT_S - start_s) * SECOND_NS, [window]).alert.maintenance is covered


@pytest.mark.parametrize(
    ("at_s", "recorded_s", "elapsed"),
    [(500, None, 400), (500, 50, 400), (500, 300, 200), (500, 600, 0), (950, None, 800)],
)
def test_what_has_passed_of_a_period_is_what_was_recorded_of_it(
    at_s: int, recorded_s: int | None, elapsed: int
) -> None:
    assert elapsed_s(Span(100 * SECOND_NS, 900 * SECOND_NS), at_s * SECOND_NS, recorded_s) == elapsed


def test_a_key_names_the_scope_and_is_bounded() -> None:
    assert (
        evaluate(UP, {"b": "2", "a": "1"}, counted(CALM), 0, ()).alert.key
        == alert_key("up", {"a": "1", "b": "2"})
        == "up/a=1/b=2"
    )
    assert slug_of("up/a=1/b=2") == slug_of("up") == "up"
    fits = alert_key("up", {"a": "x" * (MAX_KEY_CHARS - 5)})
    assert len(fits) == MAX_KEY_CHARS and "#" not in fits
    long = [alert_key("up", {"a": "x" * length + "\ud800"}) for length in (MAX_KEY_CHARS - 5, MAX_KEY_CHARS)]
    assert {len(key) for key in long} == {MAX_KEY_CHARS} and long[0] != long[1]
    assert long[0][:-18] == fits[:-18] and long[0][-18:-16] == "…#"
    assert int(long[0][-16:], 16)
