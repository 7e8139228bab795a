"""The serving stack as a map: client, gateway, cache and pools, replicas, and where they run; each edge with its figures."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlplane.dashboard.core.comparison import mean_ms
from controlplane.telemetry.core.query_types import FROM_CACHE, Group, LatencyReport, ReplicaHealth

COLUMNS = ("client", "gateway", "cache and pools", "replicas", "servers and clusters")
BEHIND = ("queue", "model")
"""The stages that a request spends at its pool."""
WIDTH, HEIGHT, GAP, ACROSS, TOP = 210, 46, 10, 262, 26  # px
MIN_STROKE, MAX_STROKE = 1.0, 12.0


@dataclass(frozen=True, slots=True)
class Flow:
    """What passed an edge. None is not known. `share` is of all time of the requests, and of attempts may be above the pool's own."""

    count: int | None = None
    errors: int | None = None
    p95_ms: float | None = None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    flow: Flow
    what: str  # that `flow` counts: "requests", "lookups", "attempts"


@dataclass(frozen=True, slots=True)
class PlacedReplica:
    """A replica as the fleet knows it, and where it runs."""

    pool: str
    name: str
    runs_in: str  # "triton in local"


@dataclass(frozen=True, slots=True)
class Node:
    """`key` is "client", "gateway", "cache", "pool:NAME", "POOL/REPLICA" or "in:PLACE"."""

    key: str
    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Map:
    nodes: Sequence[Node]
    edges: Sequence[Edge]


@dataclass(frozen=True, slots=True)
class Box:
    node: Node
    x: int
    y: int


def service_map(
    report: LatencyReport,
    by_cache: Mapping[str, Group],
    by_pool: Mapping[str, Group],
    attempts: Iterable[ReplicaHealth],
    pools: Iterable[str],
    placed: Iterable[PlacedReplica],
) -> Map:
    """`pools` and `placed`: those of the fleet, which are shown also without traffic. What the ledger alone knows is shown too."""
    whole_ms = report.answered * mean_ms(report)  # of all answered requests together
    made = {(each.pool, each.value): each for each in attempts}
    known = {(each.pool, each.name): each for each in placed}
    replicas = sorted({*known, *made})
    names = sorted({*pools, *filter(None, by_pool), *(pool for pool, _ in replicas if pool)})
    places = sorted({each.runs_in for each in known.values()})
    nodes = [
        Node("client", "clients", 0),
        Node("gateway", "gateway", 1),
        Node("cache", "cache", 2),
        *(Node(f"pool:{name}", name, 2) for name in names),
        *(Node(f"{pool}/{name}", name, 3) for pool, name in replicas),
        *(Node(f"in:{place}", place, 4) for place in places),
    ]
    p95 = report.e2e_ms.p95 if report.e2e_ms else None
    edges = [
        Edge("client", "gateway", Flow(report.requests, report.errors, p95, 1.0 if whole_ms else None), "requests"),
        Edge("gateway", "cache", _looked_up(report, by_cache), "lookups"),
        *(Edge("gateway", f"pool:{name}", _of_pool(by_pool.get(name), whole_ms), "requests") for name in names),
    ]
    for pool, name in replicas:
        health = made.get((pool, name))
        share = health.spent_ms / whole_ms if health and whole_ms else None
        flow = Flow(health.requests, health.errors, health.p95_ms, share) if health else Flow(0)
        edges.append(Edge(f"pool:{pool}" if pool else "gateway", f"{pool}/{name}", flow, "attempts"))
        if at := known.get((pool, name)):
            edges.append(Edge(f"{pool}/{name}", f"in:{at.runs_in}", flow, "attempts"))
    return Map(nodes, edges)


def _looked_up(report: LatencyReport, by_cache: Mapping[str, Group]) -> Flow:
    """Whose outcome is known. A lookup that fails is a miss: its errors are not known here."""
    lookups = sum(group.requests for outcome, group in by_cache.items() if outcome in ("miss", *FROM_CACHE))
    stage = report.stages.get("cache")
    return Flow(lookups, None, stage.p95_ms if stage else None, stage.share if stage else None)


def _of_pool(group: Group | None, whole_ms: float) -> Flow:
    if group is None:
        return Flow(0)
    spent = group.answered * sum(group.stages[stage].mean_ms for stage in BEHIND if stage in group.stages)
    return Flow(
        group.requests,
        group.errors,
        group.e2e_ms.p95 if group.e2e_ms else None,
        spent / whole_ms if whole_ms else None,
    )


def incoming(drawn: Map) -> dict[str, Flow]:
    """What arrives at each node; of several edges together no p95 is known."""
    arriving: dict[str, list[Flow]] = defaultdict(list)
    for edge in drawn.edges:
        arriving[edge.target].append(edge.flow)
    return {key: flows[0] if len(flows) == 1 else _together(flows) for key, flows in arriving.items()}


def _together(flows: Sequence[Flow]) -> Flow:
    known = [flow.share for flow in flows if flow.share is not None]
    return Flow(
        sum(flow.count or 0 for flow in flows),
        sum(flow.errors or 0 for flow in flows),
        None,
        sum(known) if known else None,
    )


def laid_out(drawn: Map) -> tuple[list[Box], list[dict[str, Any]], int, int]:
    """Boxes in columns, each column in the middle of the height, lines between them, and the size of the drawing, px."""
    columns = [[node for node in drawn.nodes if node.column == column] for column in range(len(COLUMNS))]
    tallest = max(len(column) for column in columns)
    height = TOP + tallest * (HEIGHT + GAP)
    boxes: dict[str, Box] = {}
    for at, column in enumerate(columns):
        first = TOP + (height - TOP - len(column) * (HEIGHT + GAP)) // 2
        for row, node in enumerate(column):
            boxes[node.key] = Box(node, at * ACROSS, first + row * (HEIGHT + GAP))
    lines = [_line(edge, boxes[edge.source], boxes[edge.target]) for edge in drawn.edges]
    return list(boxes.values()), lines, ACROSS * (len(COLUMNS) - 1) + WIDTH, height


def _line(edge: Edge, source: Box, target: Box) -> dict[str, Any]:
    x, y, to_x, to_y = source.x + WIDTH, source.y + HEIGHT // 2, target.x, target.y + HEIGHT // 2
    bend = (to_x - x) // 2
    share = min(1.0, edge.flow.share or 0.0)
    return {
        "edge": edge,
        "path": f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}",  # of SVG
        "stroke": round(MIN_STROKE + share * (MAX_STROKE - MIN_STROKE), 1),
    }


def without_idle(drawn: Map, most: int) -> Map:
    """With at most about `most` replicas: those without attempts are left out first. Pools always stay."""
    flows = incoming(drawn)
    replicas = sorted(
        (node for node in drawn.nodes if node.column == 3), key=lambda node: -(flows.get(node.key, Flow()).count or 0)
    )
    left_out = {node.key for node in replicas[most:]}
    return replace(
        drawn,
        nodes=[node for node in drawn.nodes if node.key not in left_out],
        edges=[edge for edge in drawn.edges if not {edge.source, edge.target} & left_out],
    )
