"""The burn-rate chart of an incident: each of its times says which one it is."""

from datetime import UTC

from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.dashboard.core import zone
from controlplane.dashboard.core.figures.burn import MAX_TICKS, burn_chart
from controlplane.dashboard.core.zone import OFFERED

S = 10**9


@given(st.integers(0, 10**9), st.integers(60, 60 * 86_400), st.sampled_from(OFFERED))
@example(0, 36 * 3_600, "UTC")  # 06:00 comes twice
@example(0, 3 * 86_400, "Asia/Kolkata")  # midnight is none of its ticks
def test_no_two_ticks_say_the_same_and_there_are_few(start_s: int, length_s: int, zone_name: str) -> None:
    zone.use(zone.named(zone_name))
    try:
        chart = burn_chart([], 60, 0.99, [], start_s * S, (start_s + length_s) * S)
    finally:
        zone.use(UTC)
    assert len({tick["text"] for tick in chart["ticks"]}) == len(chart["ticks"]) <= MAX_TICKS + 1


def test_rows_of_a_chart_of_days_have_their_day() -> None:
    days = 4 * 86_400
    steps = [(at * S, 1, 10) for at in range(0, days, 43_200)]
    chart = burn_chart(steps, 43_200, 0.99, [], 0, days * S)
    assert [row[0] for row in chart["table"]][:2] == ["1970-01-01 00:00", "1970-01-01 12:00"]
    assert [tick["text"] for tick in chart["ticks"]] == ["01-01", "01-02", "01-03", "01-04"]
