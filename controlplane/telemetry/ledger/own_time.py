"""Divides a span's own time into stages."""

from controlplane.telemetry.ledger.reading import UNATTRIBUTED, Cuts, Node

StageTime = tuple[str, int, int]
"""A stage, its start and its end (ns, on the trace's adjusted clock)."""


def stages_within(node: Node, start: int, end: int) -> list[StageTime]:
    """The stages of the span's own time from `start` to `end`, one after the other without a gap."""
    reading = node.reading
    if reading.cuts is None and not reading.call:
        return [(reading.stage, start, end)]
    cuts = node.cuts
    if cuts is None:  # computed once: it looks at all children, and a span may have as many sections as children
        cuts = reading.cuts(node) if reading.cuts is not None else [(node.start, _stage_of_call(node))]
        node.cuts = cuts
    if len(cuts) == 1 and cuts[0][0] <= start:
        return [(cuts[0][1], start, end)]
    return _cut(cuts, start, end)


def _stage_of_call(call: Node) -> str:
    return "network" if answered(call) else call.reading.stage


def _cut(cuts: Cuts, start: int, end: int) -> list[StageTime]:
    """Divides `start` to `end` at `cuts`. Cuts out of order or out of range only make empty stages."""
    stages = []
    stage = UNATTRIBUTED
    for at, following in cuts:
        if at > start:
            upto = min(at, end)
            stages.append((stage, start, upto))
            start = upto
        stage = following
    stages.append((stage, start, end))
    return stages


def answered(call: Node) -> bool:
    """Whether the spans of the server are known: inside the call, or inside a client span of the call."""
    inside = [child for child in call.children if _overlaps(child, call)]
    inside += [inner for child in inside for inner in child.children if _overlaps(inner, child)]
    return any(node.reading.far_side for node in inside)


def _overlaps(node: Node, other: Node) -> bool:
    return node.start < other.end and node.end > other.start
