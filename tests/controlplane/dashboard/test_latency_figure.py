"""The latency figure, as plotly's own schema understands it."""

import json
from typing import Any

import plotly.graph_objects as go
import pytest

from controlplane.dashboard.core.figures.latency import OtherLine, grid, latency_figure
from controlplane.dashboard.core.palette import BANDS, STYLES
from controlplane.telemetry.core.query_types import LatencyPoint, Quantiles
from controlplane.telemetry.query.core.question import Question, parse
from inference.contract.stages import STAGES

NOW = 1_795_000_000 * 10**9
STEP = 15 * 10**9


def question(q: str = "p95") -> Question:
    return parse({"q": [q]}, NOW)


def point(start_ns: int, errors: int = 0, **ttft: float) -> LatencyPoint:
    stack = {
        q: {"queue": 40.0 * times, "model": 60.0 * times, "unattributed": 0.0}
        for times, q in enumerate(("p50", "p95", "p99"), 1)
    }
    quantiles = {name: Quantiles(value, value * 2, value * 3) for name, value in ttft.items()}
    return LatencyPoint(start_ns, 20, errors, Quantiles(100, 200, 300), quantiles, stack)


def points() -> list[LatencyPoint]:
    starts = grid(NOW - 900 * 10**9, NOW, STEP)
    return [point(start, gateway=20.0, client=25.0) for start in starts if start != starts[7]]


def traces(figure: dict[str, Any], axis: str, kind: str) -> dict[str, Any]:
    return {
        trace["name"]: trace for trace in figure["data"] if trace.get("yaxis", "y") == axis and trace["type"] == kind
    }


@pytest.mark.parametrize("q", ["p50", "p95", "p99"])
def test_plotly_accepts_it_and_it_is_a_few_kilobytes(q: str) -> None:
    figure = latency_figure(points(), question(q), STEP, ["/requests"])
    go.Figure(figure)
    assert len(json.dumps(figure)) < 60_000
    go.Figure(latency_figure([], question(q), STEP))


def test_a_step_without_requests_is_a_gap_in_every_series_also_of_what_it_is_compared_with() -> None:
    figure = latency_figure(points(), question(), STEP, beside=OtherLine("a day earlier", points(), STEP, 0))
    go.Figure(figure)
    assert "E2E p95, a day earlier" in traces(figure, "y", "scatter")
    for trace in figure["data"]:
        assert trace["y"][7] is None, trace["name"]
        assert trace["y"][6] is not None, trace["name"]
        assert not trace.get("connectgaps", False)


def test_stages_that_took_no_time_are_left_out_and_the_others_are_stacked_to_the_height_of_real_requests() -> None:
    figure = latency_figure(points(), question(), STEP)
    bars = traces(figure, "y", "bar")
    assert list(bars) == ["queue", "model"]
    assert figure["layout"]["barmode"] == "stack"
    assert sum(bar["y"][0] for bar in bars.values()) == pytest.approx(0.2)  # seconds
    together = traces(figure, "y", "scatter")["stages together, mean of requests around p95"]
    assert together["y"][0] == pytest.approx(0.2), "the hover says what they add up to, beside the exact quantile"
    assert together["marker"]["opacity"] == 0


def test_definitions_of_ttft_are_lines_of_their_own_and_e2e_stands_beside_them() -> None:
    lines = traces(latency_figure(points(), question(), STEP), "y2", "scatter")
    assert set(lines) == {"E2E", "TTFT (gateway)", "TTFT (client)"}
    assert lines["TTFT (gateway)"]["y"][0] == 0.04
    assert lines["TTFT (client)"]["y"][0] == 0.05
    assert len({line["line"].get("dash") for line in lines.values()}) == 3, "colour alone tells them apart"


@pytest.mark.parametrize(("q", "lines"), [("p50", ["p50"]), ("p95", ["p50", "p95"]), ("p99", ["p50", "p95", "p99"])])
def test_only_quantiles_up_to_the_chosen_one_are_drawn_so_that_bars_stay_tall(q: str, lines: list[str]) -> None:
    drawn = list(traces(latency_figure(points(), question(q), STEP), "y", "scatter"))
    assert drawn == [*(f"E2E {line}" for line in lines), f"stages together, mean of requests around {q}"]


def test_errors_are_drawn_only_where_there_are_any() -> None:
    assert "errors" not in traces(latency_figure(points(), question(), STEP), "y3", "bar")
    failing = [*points()[1:], point(points()[0].start_ns, errors=3)]
    assert traces(latency_figure(failing, question(), STEP), "y3", "bar")["errors"]["y"][0] == 3


def test_every_bar_has_its_link() -> None:
    starts = grid(NOW - 900 * 10**9, NOW, STEP)
    hrefs = [f"/requests?at={start}" for start in starts]
    figure = latency_figure(points(), question(), STEP, hrefs)
    assert figure["layout"]["meta"]["hrefs"] == hrefs
    assert all(len(trace["x"]) == len(hrefs) for trace in figure["data"])


def test_a_step_alone_between_gaps_is_a_dot_since_it_can_be_no_line() -> None:
    alone = [point(grid(NOW - STEP * 9, NOW, STEP)[3])]
    for line in traces(latency_figure(alone, question(), STEP), "y", "scatter").values():
        assert [size for size, y in zip(line["marker"]["size"], line["y"], strict=True) if y is not None] == [5]
    for line in traces(latency_figure(points(), question(), STEP), "y", "scatter").values():
        assert set(line["marker"]["size"]) == {0}


def test_axes_carry_their_unit() -> None:
    layout = latency_figure(points(), question(), STEP)["layout"]
    assert layout["yaxis"]["ticksuffix"] == layout["yaxis2"]["ticksuffix"] == "s"
    assert layout["xaxis"]["title"]["text"] == "UTC"


def test_every_stage_of_the_ledger_has_a_style_of_its_own() -> None:
    assert set(BANDS) == {*STAGES, "unattributed"} == set(STYLES)
    assert len({style.colour for style in STYLES.values()}) == len(STYLES)
