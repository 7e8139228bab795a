"""The heatmap's figure, and the page that has it."""

import json
import re
from math import log10

import pytest
from django.test import Client

from controlplane.dashboard.core.figures.heatmap import bottom, heatmap_figure, ticks
from controlplane.telemetry.core.query_types import HEATMAP_EDGES_NS, HeatmapCell, Region, Window
from controlplane.telemetry.query.core.question import Question
from controlplane.telemetry.query.core.timerange import TimeRange
from tests.support.web.served import Filled

MINUTE = 60 * 10**9
START = 1_795_000_020 * 10**9
WINDOW = Window(START, START + 10 * MINUTE)
QUESTION = Question(TimeRange("a", "b", WINDOW), {})


def cell(step: int, row: int, requests: int) -> HeatmapCell:
    return HeatmapCell(START + step * MINUTE, HEATMAP_EDGES_NS[row], HEATMAP_EDGES_NS[row + 1], requests)


def test_each_cell_lies_where_its_requests_do() -> None:
    figure = heatmap_figure([cell(0, 21, 9), cell(9, 24, 99)], [], QUESTION, MINUTE)
    heat = figure["data"][0]
    assert (heat["z"][0][0], heat["z"][3][9]) == (1.0, 2.0)
    assert sum(value is not None for row in heat["z"] for value in row) == 2
    assert (len(heat["x"]), len(heat["y"])) == (10, 4)
    assert 10 ** heat["y"][0] * 1e6 == pytest.approx((HEATMAP_EDGES_NS[21] * HEATMAP_EDGES_NS[22]) ** 0.5, rel=1e-3)
    assert heat["text"][0][0].startswith("9 answered in 10.0")


@pytest.mark.parametrize("row", [1, 21, 76])
def test_rows_begin_at_the_stores_edges(row: int) -> None:
    assert bottom(row) == pytest.approx(log10(HEATMAP_EDGES_NS[row] / 1e6), abs=1e-6)


def test_the_region_is_outlined_and_open_sides_reach_the_edge() -> None:
    figure = heatmap_figure([cell(0, 21, 9)], [], QUESTION, MINUTE, Region(11_000_000))
    [shape] = figure["layout"]["shapes"]
    assert (shape["x0"], shape["x1"]) == (WINDOW.from_ns / 1e6, WINDOW.to_ns / 1e6)
    assert (shape["y0"], shape["y1"]) == (pytest.approx(log10(11)), figure["layout"]["yaxis"]["range"][1])


def test_without_requests_it_is_empty_and_has_axes() -> None:
    figure = heatmap_figure([], [], QUESTION, MINUTE)
    assert all(value is None for row in figure["data"][0]["z"] for value in row)
    assert figure["layout"]["yaxis"]["range"] == [0.0, 3.0]


def test_ticks_are_round_lengths() -> None:
    assert [text.replace("\u202f", " ") for _, text in ticks(0.9, 2.1)] == ["10 ms", "20 ms", "50 ms", "100 ms"]
    assert [text.replace("\u202f", " ") for _, text in ticks(-1.1, 3.1)] == ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]


def test_the_page_counts_every_request_in_it_and_keeps_the_region_through_its_links(
    reader: Client, served: Filled
) -> None:
    query = {**served.range, "view": "heatmap", "e2e_from_ms": "1000"}
    page = reader.get("/latency", query).content.decode()
    found = re.search(r'<script id="figure" type="application/json">(.*?)</script>', page)
    assert found
    heat = json.loads(found[1])["data"][0]
    assert sum(round(10**value - 1) for row in heat["z"] for value in row if value is not None) == pytest.approx(
        len(served.rows), rel=0.02
    )
    assert re.search(r"q=p99&amp;e2e_from_ms=1000&amp;view=heatmap", page)
    assert '<input type="hidden" name="e2e_from_ms" value="1000">' in page
