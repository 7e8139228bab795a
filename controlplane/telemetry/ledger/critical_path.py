"""Which span each instant of a request belongs to: the critical path, as Jaeger computes it.

From the end backwards: of a span's children the one that finished last is on the path, and the walk goes on inside it;
from its start the next is the last of those that had finished by then. What no child takes is the span's own. Children
are cut to their parent; those wholly outside, and those whose kind says that nobody waited for them, are left out.
(jaegertracing/jaeger-ui, packages/jaeger-ui/src/components/TracePage/CriticalPath; its published cases are tests here.)

Two differences. A child that ends at the very instant the next starts counts as finished. And so does one that overlaps
the next by at most a quarter of itself, cut where the next starts: Triton ends an ensemble's step after the next has
begun, and work handed over is not work done in parallel.
"""

from controlplane.telemetry.ledger.reading import Node

PRODUCER, CONSUMER = 4, 5
HANDOVER = 4  # an overlap of up to 1/HANDOVER of the earlier span is a handover


Section = tuple[Node, int, int]
"""From the second to the third (ns) the request's time is this span's own. A plain tuple: every request has eight."""


def critical_path(root: Node, start: int, end: int) -> list[Section]:
    """Sections that cover `start` to `end` exactly, last first, none empty."""
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
            if child.children:
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
    """The children that lie at least partly between `start` and `end`; the last to finish comes last."""
    inside = [
        (child.end if child.end < end else end, -child.start, child.id, child)
        for child in node.children
        if child.start < end and child.end > start and child.start < child.end and child.span.kind < PRODUCER
    ]
    inside.sort()
    return inside
