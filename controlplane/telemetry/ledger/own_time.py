"""Divides a span's own time into stages."""

from controlplane.telemetry.core.spans import SERVER
from controlplane.telemetry.ledger.reading import UNATTRIBUTED, Cuts, Entry, Node

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
    return _cut(cuts, start, end)


def _stage_of_call(call: Node) -> str:
    return "network" if answered(call) else call.reading.stage


def _cut(cuts: Cuts, start: int, end: int) -> list[StageTime]:
    """Divides `start` to `end` at `cuts`. Cuts out of order or out of range only make empty stages."""
    stages = []
    stage = UNATTRIBUTED
    for at, following in cuts:
        upto = min(max(at, start), end)
        stages.append((stage, start, upto))
        start, stage = upto, following
    stages.append((stage, start, end))
    return stages


def answered(call: Node) -> bool:
    """Whether the spans of the server are known: beneath the call, or beneath a client's span of the call."""
    return any(map(_serves, call.children)) or any(
        _serves(inner) for child in call.children for inner in child.children
    )


def _serves(node: Node) -> bool:
    """Whether the span is all of a server's work on one call, measured by the server."""
    return not node.reading.inner and (node.span.kind == SERVER or node.reading.entry >= Entry.ENGINE)
