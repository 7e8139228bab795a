"""Computes the critical path of a request: the span to which each instant belongs, as Jaeger computes it.

The walk goes backwards from the end. Of a span's children the one that finished last is on the path, and the walk continues inside it.
From its start the next is the last child that had finished by then. Time that no child takes is the span's own. Children are cut to
their parent. Children wholly outside, and children whose kind or reading says that their parent does not wait, are left out.
(jaegertracing/jaeger-ui, packages/jaeger-ui/src/components/TracePage/CriticalPath; its published cases are tests here.)

There are three differences. A child that ends at the instant when the next starts counts as finished. So does a child that overlaps the
next by at most a quarter of itself, cut where the next starts: Triton ends an ensemble's step after the next has begun, which is a
handover and not parallel work. What retrieval and reranking call, such as a model for embeddings, is part of their own time.
"""

from controlplane.telemetry.ledger.reading import Node
from inference.contract.stages import BEFORE_THE_CALL

PRODUCER, CONSUMER = 4, 5
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
        while pending:
            child_end, _, _, child = pending.pop()
            if child_end > cursor:
                if (child_end - cursor) * HANDOVER > child_end - child.start:
                    continue  # it ran beside the one after it
                child_end = cursor
            child_start = child.start if child.start > node_start else node_start
            if child_start >= child_end:
                continue
            if child_end < cursor:
                sections.append((node, child_end, cursor))
            cursor = child_end
            if child.children and child.reading.stage not in BEFORE_THE_CALL:
                stack.append((child, child_start, _inside(child, child_start, child_end)))
            else:
                sections.append((child, child_start, child_end))
                cursor = child_start
                continue
            break
        else:
            if node_start < cursor:
                sections.append((node, node_start, cursor))
                cursor = node_start
            stack.pop()
    return sections


def _inside(node: Node, start: int, end: int) -> list[tuple[int, int, bytes, Node]]:
    """The children that lie at least partly between `start` and `end`, in order of their ends."""
    inside = [
        (child.end if child.end < end else end, -child.start, child.id, child)
        for child in node.children
        if child.start < end
        and child.end > start
        and child.start < child.end
        and child.span.kind < PRODUCER
        and not child.reading.beside
    ]
    inside.sort()
    return inside
