"""The figures of planners hold what is known and nothing else: gaps stay gaps, and every series has a look of its own."""

import math

import numpy as np

from controlplane.dashboard.core.figures.forecast import Earlier, Event, forecast_figure
from controlplane.dashboard.core.figures.plan import Hours, compared_figure, plan_figure, regions_figure
from forecasting.series import Series
from tests.support.planning.forecasts import forecast

NAN = float("nan")
NOW_S = 1_795_000_000 // 3600 * 3600


def series(*values: float, step_s: int = 900) -> Series:
    return Series(NOW_S - len(values) * step_s, step_s, np.array(values))


def drawn(came: Series, earlier: Earlier | None = None, events: tuple[Event, ...] = ()) -> dict[str, dict[str, object]]:
    figure = forecast_figure(
        came,
        forecast(NOW_S, steps=4),
        earlier,
        [("shed", came)],
        events,
        unit="requests/s",
        shown_s=(NOW_S - 3600, NOW_S + 3600),
        now_s=NOW_S,
        key="k",
    )
    return {trace["name"]: trace for trace in figure["data"]}


def test_a_gap_of_what_came_is_no_line_and_no_zero() -> None:
    came = drawn(series(1.0, NAN, 3.0, 4.0))["came"]
    assert came["y"] == [1.0, None, 3.0, 4.0] and came["connectgaps"] is False
    assert came["marker"]["size"] == [5, 0, 0, 0]  # type: ignore[index]


def test_the_bands_lie_in_one_another() -> None:
    traces = drawn(series(1.0))
    outer, inner, median = (traces[name]["y"] for name in ("P5 to P95", "P10 to P90", "forecast, P50"))
    assert all(high > less > middle for high, less, middle in zip(outer, inner, median, strict=True))  # type: ignore[call-overload]


def test_the_record_is_joined_up_to_a_gap() -> None:
    values = [NAN] * 12
    values[0], values[2], values[11] = 1.0, 2.0, 3.0
    then = series(*values)
    line = drawn(then, Earlier(then, then, joined_s=3600))["forecast then"]
    assert line["y"] == [1.0, 2.0, None, 3.0]
    assert "forecast then" not in drawn(then)


def test_sixteen_pools_have_sixteen_looks() -> None:
    pools = [Hours(f"pool-{number}", NOW_S, [1.0, 2.0]) for number in range(16)]
    markers = [trace["marker"] for trace in plan_figure(pools, None, "k")["data"]]
    assert len({(marker["color"], marker["pattern"]["shape"]) for marker in markers}) == 16


def test_cost_is_drawn_only_where_it_is_known() -> None:
    pools = [Hours("a", NOW_S, [1.0])]
    assert "yaxis2" not in plan_figure(pools, None, "k")["layout"]
    priced = plan_figure(pools, Hours("cost", NOW_S, [4.2]), "k")
    assert priced["layout"]["yaxis2"]["title"]["text"] == "USD per hour"


def test_each_scenario_has_a_look_of_its_own() -> None:
    figure = compared_figure([Hours(str(number), NOW_S, [1.0]) for number in range(8)], "k")
    lines = [trace["line"] for trace in figure["data"]]
    assert len({(line["color"], line["dash"]) for line in lines}) == 8


def test_a_region_without_a_price_has_no_bar_of_cost() -> None:
    bars = regions_figure(["eu"], [10.0], [None], "k")["data"]
    assert bars[0]["y"] == [10.0] and bars[1]["y"] == [None]
    assert not any(isinstance(value, float) and math.isnan(value) for bar in bars for value in bar["y"])
