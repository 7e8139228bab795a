"""Builds a tree of a trace's spans: each span once, without cycles, with clocks that agree."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.telemetry.core.spans import CLIENT, SERVER, Span
from controlplane.telemetry.ledger.adapters import read, triton
from controlplane.telemetry.ledger.reading import Node

MAX_NS = 2**63 - 1
"""Times are limited to the range of the store's signed columns."""

CONSUMER = 5
_NO_ID = bytes(8)


class Tree(NamedTuple):
    nodes: list[Node]  # parents before their children
    roots: list[Node]
    orphans: list[Node]  # tops whose parent is missing, or that closed a cycle


def build(spans: Sequence[Span]) -> Tree:
    """The tree of one trace's spans, which may be in any order, repeated or damaged."""
    unique: dict[bytes, Span] = {}
    for span in spans:
        known = unique.setdefault(span.span_id, span)
        if known is not span and known != span:
            unique[span.span_id] = max(known, span, key=_richness)

    nodes = {span_id: Node(span, read(span)) for span_id, span in unique.items()}
    roots: list[Node] = []
    orphans: list[Node] = []
    has_triton = False
    for node in nodes.values():
        if not 0 <= node.start <= node.end <= MAX_NS:
            node.start = min(max(node.start, 0), MAX_NS)
            node.end = min(max(node.end, node.start), MAX_NS)
        if node.reading.adapter == "triton":
            has_triton = True
        parent_id = node.span.parent_id
        if not parent_id or parent_id == _NO_ID:
            roots.append(node)
            continue
        parent = nodes.get(parent_id)
        if parent is None:
            orphans.append(node)
        else:
            node.parent = parent
            parent.children.append(node)

    reached = descend(roots + orphans)
    if len(reached) < len(nodes):
        orphans += _break_cycles(list(nodes.values()), reached)
        reached = descend(roots + orphans)
    if has_triton:
        triton.nest(reached)
        reached = descend(roots + orphans)
    _agree_clocks(reached)
    return Tree(reached, roots, orphans)


def descend(tops: list[Node]) -> list[Node]:
    """All nodes at and beneath `tops`, parents before children."""
    order = list(tops)
    for node in order:  # grows as it goes
        order += node.children
    return order


def _richness(span: Span) -> tuple[int, int, str]:
    """Order of two versions of a span: the fuller wins, then the one that ended later, then the greater text."""
    return len(span.attributes) + len(span.events), span.end_ns, repr(span)


def _break_cycles(nodes: list[Node], reached: list[Node]) -> list[Node]:
    """Detaches the span that started first in each cycle of parents, and returns those spans."""
    seen = {node.id for node in reached}
    tops = []
    for node in nodes:
        chain: list[Node] = []
        at: Node | None = node
        while at is not None and at.id not in seen:
            seen.add(at.id)
            chain.append(at)
            at = at.parent
        if at is not None and at in chain:
            top = min(chain[chain.index(at) :], key=lambda n: (n.start, n.id))
            assert top.parent is not None
            top.parent.children.remove(top)
            top.parent = None
            tops.append(top)
    return tops


def _agree_clocks(nodes: list[Node]) -> None:
    """Moves spans of another process that lie outside their parent, with that process's spans beneath them.

    As Jaeger's CorrectClockSkew (jaegertracing/jaeger, cmd/query/app/querysvc/adjuster/clockskew.go): a shorter child is centred in its
    parent, on the assumption that both ways over the network take equally long. A longer child is only kept from starting before it.
    Jaeger distinguishes processes by host attributes. Here another service, or a server under its client, is another process. Consumers
    of messages are left alone, because they run at any time later.
    """
    for node in nodes:
        parent = node.parent
        if parent is None or (not parent.shift and parent.start <= node.start and node.end <= parent.end):
            continue
        span = node.span
        elsewhere = span.service != parent.span.service or (span.kind == SERVER and parent.span.kind == CLIENT)
        if not elsewhere:
            node.shift = parent.shift
        elif span.kind != CONSUMER:
            node.shift = _skew(node, parent)
        if node.shift:
            node.start += node.shift
            node.end += node.shift


def _skew(child: Node, parent: Node) -> int:
    spare = (parent.end - parent.start) - (child.end - child.start)
    if spare < 0:
        return max(0, parent.start - child.start)
    if parent.start <= child.start and child.end <= parent.end:
        return 0
    return parent.start + spare // 2 - child.start
