"""Finds the attempts of a request. The time of every attempt is booked to its replica, also when another attempt followed."""

from controlplane.telemetry.ledger.attributes import flag, text
from controlplane.telemetry.ledger.own_time import answered
from controlplane.telemetry.ledger.reading import Node, by_time
from controlplane.telemetry.ledger.requests import ERROR, Request
from controlplane.telemetry.ledger.row import Attempt

COALESCED = "coalesced"
"""Cache outcome of a request that waited for the attempts of another request, to which they belong."""

OVERTAKEN = "overtaken"
"""`error.type` of the slower one of two attempts at the same time."""


def attempt_nodes(request: Request) -> list[Node]:
    """The calls to a model that name their replica, in order."""
    if text(request.entry.span.attributes, "weir.cache.outcome") == COALESCED:
        return []
    calls = [node for node in request.members if node.reading.call and "weir.replica" in node.span.attributes]
    return sorted(calls, key=by_time)


def retried(node: Node) -> bool:
    """Whether another attempt followed this one."""
    return flag(node.span.attributes, "weir.retried")


def owner(node: Node | None, nodes: list[Node]) -> int:
    """The index of the attempt that a span is, or lies within; -1 where there is none."""
    while node is not None:
        for index, attempt in enumerate(nodes):
            if attempt is node:
                return index
        node = node.parent
    return -1


def booked(request: Request, nodes: list[Node], model_ns: list[int]) -> tuple[Attempt, ...]:
    """The attempts as values. `model_ns` is the share of each in the request's model time."""
    pool = text(request.entry.span.attributes, "weir.pool")
    return tuple(_attempt(request, node, pool, own_ns) for node, own_ns in zip(nodes, model_ns, strict=True))


def unmeasured(request: Request) -> bool:
    """Whether spans of a server are missing: those inside a call to a model, or the one that has the queue time. An attempt that another
    one followed, or was faster than, does not count, because it may not have reached a server."""
    for node in request.members:
        reading = node.reading
        if reading.call:
            if not answered(node) and not retried(node) and text(node.span.attributes, "error.type") != OVERTAKEN:
                return True
        elif reading.queue_missing is not None and reading.queue_missing(node):
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
