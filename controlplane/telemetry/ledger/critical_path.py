"""Computes the critical path of a request: the span to which each instant belongs, as Jaeger computes it.

The walk goes backwards from the end. Of a span's children the one that finished last is on the path, and the walk continues inside it.
From its start the next is the last child that had finished by then. Time that no child takes is the span's own. Children are cut to
their parent. Children wholly outside, and children whose kind or reading says that their parent does not wait, are left out.
(jaegertracing/jaeger-ui, packages/jaeger-ui/src/components/TracePage/CriticalPath; its published cases are tests here.)

There are three differences. A child that ends at the instant when the next starts counts as finished. So does a child that overlaps the
next by at most a quarter of itself, cut where the next starts: Triton ends an ensemble's step after the next has begun, which is a
handover and not parallel work. What retrieval and reranking call, such as a model for embeddings, is part of their own time.
"""

from controlplane.telemetry.core.spans import PRODUCER
from controlplane.telemetry.ledger.reading import Node
from inference.contract.stages import BEFORE_THE_CALL

HANDOVER = 4  # an overlap of up to 1/HANDOVER of the earlier span is a handover


Section = tuple[Node, int, int]
"""A span, and from when to when (ns) the request's time is the span's own. A plain tuple, because every request has about eight."""


def critical_path(root: Node, start: int, end: int) -> list[Section]:
    """Sections that cover `start` to `end` exactly, latest first, none empty."""
    sections: list[Section] = []
    stack = [(root, start, _inside(root, start, end))]
    cursor = end
    while stack:
        node, node_start, pending = stack[-1]
        if pending:
            child_end, _, _, child_start, child = pending.pop()
            if (child_end - cursor) * HANDOVER > child_end - child_start:
                continue  # it ran beside the one after it
            child_end = min(child_end, cursor)
            if child_end < cursor:
                sections.append((node, child_end, cursor))
                cursor = child_end
            whole = child.reading.stage in BEFORE_THE_CALL
            stack.append((child, child_start, [] if whole else _inside(child, child_start, child_end)))
        else:
            if node_start < cursor:
                sections.append((node, node_start, cursor))
                cursor = node_start
            stack.pop()
    return sections


def _inside(node: Node, start: int, end: int) -> list[tuple[int, int, bytes, int, Node]]:
    """The parts of children that lie between `start` and `end`, in order of their ends: each its end, what decides between equal ends, its
    start and the child.
    """
    inside = []
    for child in node.children:
        child_start, child_end = max(child.start, start), min(child.end, end)
        if child_start < child_end and child.span.kind < PRODUCER and not child.reading.beside:
            inside.append((child_end, -child_start, child.id, child_start, child))
    inside.sort()
    return inside
