"""The service map: every edge with its figures, which add up to what the ledger has, and nothing that overlaps."""

import re

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from controlplane.dashboard.core.service_map import HEIGHT, PlacedReplica, incoming, laid_out, service_map, without_idle
from controlplane.fleet.models import Cluster, Replica
from controlplane.telemetry.core.query_types import (
    Group,
    LatencyReport,
    Quantiles,
    ReplicaHealth,
    StageFigures,
    StageShare,
)
from tests.support.stored_pool import stored_pool
from tests.support.web.html import page_of
from tests.support.web.served import Filled

NAMES = st.sampled_from("abcdef")
MEANS = {"model": StageFigures(80, 90, 100, 80, 0.8, 0), "queue": StageFigures(20, 20, 20, 20, 0.2, 0)}
REPORT = LatencyReport(10, 2, Quantiles(80, 100, 120), {}, {}, MEANS, None)


@given(st.lists(st.tuples(NAMES, NAMES), max_size=12), st.lists(st.tuples(NAMES, NAMES), max_size=12))
def test_whatever_is_served_each_node_is_reached_and_no_boxes_overlap(
    made: list[tuple[str, str]], placed: list[tuple[str, str]]
) -> None:
    attempts = [ReplicaHealth(replica, 3, 1, 5.0, 1, pool, 40.0) for pool, replica in dict.fromkeys(made)]
    drawn = service_map(REPORT, {}, {}, attempts, (), [PlacedReplica(pool, name, "triton") for pool, name in placed])
    assert {edge.target for edge in drawn.edges} == {node.key for node in drawn.nodes} - {"client"}
    boxes, _, width, height = laid_out(drawn)
    assert all(0 <= box.y <= height - HEIGHT and 0 <= box.x < width for box in boxes)
    for one in boxes:
        assert all(abs(one.y - other.y) >= HEIGHT for other in boxes if other is not one and other.x == one.x)
    assert sum(
        edge.flow.count or 0 for edge in drawn.edges if edge.what == "attempts" and "in:" not in edge.target
    ) == 3 * len(attempts)


def test_shares_are_of_the_time_of_all_answered_requests_and_what_is_not_known_is_not_zero() -> None:
    pool = Group(10, 2, Quantiles(80, 100, 120), {"model": StageShare(60, 0.6, 0), "gateway": StageShare(5, 0.05, 0)})
    drawn = service_map(
        REPORT, {}, {"chat": pool}, [ReplicaHealth("r0", 9, 1, 70.0, 1, "chat", 400.0)], ["chat", "idle"], ()
    )
    arriving = incoming(drawn)
    assert arriving["gateway"].share == 1.0
    assert arriving["pool:chat"].share == pytest.approx(8 * 60 / (8 * 100))
    assert arriving["chat/r0"].share == pytest.approx(400 / 800)
    assert (arriving["pool:idle"].count, arriving["pool:idle"].p95_ms) == (0, None)
    assert arriving["cache"].errors is None
    assert {node.key for node in without_idle(drawn, 0).nodes} == {node.key for node in drawn.nodes} - {"chat/r0"}


def test_the_screen_has_each_edge_with_its_figures(reader: Client, served: Filled) -> None:
    pool = stored_pool("chat-small-local", "chat-small", cluster=Cluster.objects.create(name="here"))
    Replica.objects.create(pool=pool, name="idle-7", grpc="127.0.0.1:1")
    shown = page_of(reader, "/map", **served.range, model="chat-small")
    rows = {
        (source, target): re.findall(r'class="n[^"]*">([^<]*)</td>', cells)
        for source, target, cells in re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>(.*?)</tr>', shown, re.S)
    }
    whole = served.of(model="chat-small")
    failed = [row for row in whole if row.status == "error"]
    assert ("clients", "gateway") in rows and ("chat-small-local", "chat-small-1") in rows
    assert rows["clients", "gateway"][3] == "100\u202f%"
    assert float(rows["clients", "gateway"][1].replace("✕ ", "").split("\u202f")[0]) == pytest.approx(
        100 * len(failed) / len(whole), abs=0.51
    )
    assert rows["chat-small-local", "idle-7"] == ["0\u202f/s", "–", "–", "–"]
    assert "in here" in shown
    assert "pool=chat-small-local" in shown and "model=chat-small" in shown
