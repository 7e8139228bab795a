"""Builds a tree of a trace's spans: each span once, without cycles, with clocks that agree."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.telemetry.core.spans import CLIENT, CONSUMER, SERVER, Span
from controlplane.telemetry.ledger.adapters import read, triton
from controlplane.telemetry.ledger.reading import Node, by_time


class Tree(NamedTuple):
    nodes: list[Node]  # parents before their children
    roots: list[Node]
    orphans: list[Node]  # tops whose parent is missing, or that closed a cycle


def build(spans: Sequence[Span]) -> Tree:
    """The tree of one trace's spans, which may be in any order, repeated, in circles or without their parents."""
    unique: dict[bytes, Span] = {}
    for span in spans:
        known = unique.setdefault(span.span_id, span)
        if known is not span:
            unique[span.span_id] = max(known, span, key=_richness)

    nodes = {span_id: Node(span, read(span)) for span_id, span in unique.items()}
    roots: list[Node] = []
    orphans: list[Node] = []
    for node in nodes.values():
        parent = nodes.get(node.span.parent_id)
        if parent is not None:
            node.parent = parent
            parent.children.append(node)
        elif node.span.parent_id:
            orphans.append(node)
        else:
            roots.append(node)

    triton.nest(nodes.values())
    reached = descend(roots + orphans)
    if len(reached) != len(nodes):
        orphans += _break_cycles(list(nodes.values()), reached)
        reached = descend(roots + orphans)
    _agree_clocks(reached)
    return Tree(reached, roots, orphans)


def descend(tops: list[Node]) -> list[Node]:
    """All nodes at and beneath `tops`, parents before children."""
    order = list(tops)
    for node in order:  # grows as it goes
        order += node.children
    return order


def _richness(span: Span) -> tuple[int, int, int, str]:
    """Order of two versions of a span: the fuller wins, then the one that ended later, then the greater text."""
    return len(span.attributes), len(span.events), span.end_ns, repr(span)


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
            top = min(chain[chain.index(at) :], key=by_time)
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
        if parent is None:
            continue
        span = node.span
        if span.service == parent.span.service and (span.kind != SERVER or parent.span.kind != CLIENT):
            node.shift = parent.shift
        elif span.kind != CONSUMER and (node.start < parent.start or parent.end < node.end):
            spare = (parent.end - parent.start) - (node.end - node.start)
            centred = parent.start + spare // 2
            node.shift = (centred if spare >= 0 else max(node.start, parent.start)) - node.start
        node.start += node.shift
        node.end += node.shift
