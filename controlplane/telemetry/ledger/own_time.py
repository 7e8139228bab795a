"""A stretch of a span's own time, in pieces by stage."""

from controlplane.telemetry.ledger.reading import UNATTRIBUTED, Cuts, Node

Piece = tuple[str, int, int]
"""A stage, and from when to when (ns, on the trace's adjusted clock)."""


def pieces(node: Node, start: int, end: int) -> list[Piece]:
    """From `start` to `end`, which are the span's own time: what stages they are. They follow one another without a gap."""
    reading = node.reading
    if reading.cuts is None and not reading.call:
        return [(reading.stage, start, end)]
    cuts = node.cuts
    if cuts is None:  # asked for once: it looks at all children, and a span may have as many sections as children
        cuts = reading.cuts(node) if reading.cuts is not None else [(node.start, _stage_of_call(node))]
        node.cuts = cuts
    if len(cuts) == 1 and cuts[0][0] <= start:
        return [(cuts[0][1], start, end)]
    return _cut(cuts, start, end)


def _stage_of_call(call: Node) -> str:
    return "network" if answered(call) else call.reading.stage


def _cut(cuts: Cuts, start: int, end: int) -> list[Piece]:
    """`start` to `end` in pieces by stage. Cuts out of order or out of range only make pieces empty."""
    pieces = []
    stage = UNATTRIBUTED
    for at, following in cuts:
        if at > start:
            upto = min(at, end)
            pieces.append((stage, start, upto))
            start = upto
        stage = following
    pieces.append((stage, start, end))
    return pieces


def answered(call: Node) -> bool:
    """Whether the far side's own spans are seen in a call, or in the client span that the call is made through."""
    inside = [child for child in call.children if _overlaps(child, call)]
    inside += [inner for child in inside for inner in child.children if _overlaps(inner, child)]
    return any(node.reading.far_side for node in inside)


def _overlaps(one: Node, other: Node) -> bool:
    return one.start < other.end and one.end > other.start
