"""The attempts of a request: every call to a replica is booked where it was spent, also one that failed and was followed by another."""

from controlplane.telemetry.ledger.attributes import count, flag, text
from controlplane.telemetry.ledger.own_time import answered
from controlplane.telemetry.ledger.reading import Node
from controlplane.telemetry.ledger.requests import ERROR, Request
from controlplane.telemetry.ledger.row import Attempt

COALESCED = "coalesced"
"""Cache outcome of a request that waited for another one's attempts: they are the other's."""


def attempt_nodes(request: Request) -> list[Node]:
    """Calls to a model that name their replica, in order."""
    if text(request.entry.span.attributes, "weir.cache.outcome") == COALESCED:
        return []
    found = [node for node in request.members if node.reading.call and "weir.replica" in node.span.attributes]
    if len(found) > 1:
        found.sort(key=_order)
    return found


def retried(node: Node) -> bool:
    """Whether another attempt followed this one."""
    return flag(node.span.attributes, "weir.retried")


def owner(node: Node | None, nodes: list[Node]) -> int:
    """The index of the attempt that a span is, or is within; -1 where it is in none."""
    while node is not None:
        for index, attempt in enumerate(nodes):
            if attempt is node:
                return index
        node = node.parent
    return -1


def booked(request: Request, nodes: list[Node], model_ns: list[int]) -> tuple[Attempt, ...]:
    """`model_ns`: of each attempt, how much of the request's model time it is."""
    pool = text(request.entry.span.attributes, "weir.pool")
    return tuple(_attempt(request, node, pool, own_ns) for node, own_ns in zip(nodes, model_ns, strict=True))


def unmeasured(request: Request) -> bool:
    """Whether spans of a server are missing: the far side of a call to a model, or what says how long it queued there. Attempts that
    another one followed may have reached nobody."""
    for node in request.members:
        reading = node.reading
        if reading.call:
            if not answered(node) and not retried(node):
                return True
        elif reading.queue_unseen is not None and reading.queue_unseen(node):
            return True
    return False


def _attempt(request: Request, node: Node, pool: str, model_ns: int) -> Attempt:
    attributes = node.span.attributes
    error_type = text(attributes, "error.type")
    failed = node.span.status_code == ERROR
    start, end = max(node.start, request.start), min(node.end, request.end)
    return Attempt(
        pool=text(attributes, "weir.pool") or pool,
        replica=text(attributes, "weir.replica"),
        outcome="error" if failed else "cancelled" if error_type else "ok",
        error_type=(error_type or "error") if failed else "",
        retried=retried(node),
        ns=max(0, end - start),
        model_ns=model_ns,
    )


def _order(node: Node) -> tuple[int, int, bytes]:
    return count(node.span.attributes, "weir.attempt") or 0, node.start, node.id
