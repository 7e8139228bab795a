"""Finds the requests of a trace, the spans that belong to each, and its start and end."""

from typing import NamedTuple

from controlplane.telemetry.core.spans import CLIENT, SERVER
from controlplane.telemetry.ledger.adapters import weir
from controlplane.telemetry.ledger.reading import Entry, Node, by_time
from controlplane.telemetry.ledger.tree import Tree, descend
from inference.contract.stages import BEFORE_THE_CALL

ERROR = 2
MAX_LEVELS = 8
"""How far above a call the application's span may be that retrieved documents for it."""
MAX_COMPARISONS = 1_000_000
"""Orphans are matched to requests by time, which is quadratic. Above this many comparisons they are left out."""


class Request(NamedTuple):
    entry: Node
    client: Node | None  # the caller's span around it, which then has the start and the end
    top: Node  # the outermost span of its time: the application's that looked for documents first, else the client's, else the entry
    start: int
    end: int
    members: list[Node]  # every span that belongs to it, the entry first


def find(tree: Tree) -> list[Request]:
    """The requests of a trace that have ended, in order of their entries' times.

    Entries are the outermost spans that an adapter recognises (see `Entry`). Where there is none, they are the outermost spans that may be
    requests (see `_may_be_request`). A span whose parent is missing is given to the request that contains it in time (see `_adopt`).
    """
    _part_gateway_requests(tree)
    entries = _recognised(tree)
    staged = not entries and any(weir.STAGE in node.span.attributes for node in tree.nodes)
    if not entries:
        entries = [root for root in tree.roots if _may_be_request(root, staged)]
    entries = [entry for entry in _adopt(tree, entries, staged) if not _has_not_ended(entry)]
    for entry in entries:
        entry.owner = entry
    prepared = any(node.reading.stage in BEFORE_THE_CALL for node in tree.nodes)
    return [_request(entry, prepared) for entry in sorted(entries, key=by_time)]


def _part_gateway_requests(tree: Tree) -> None:
    """A request of a gateway directly beneath another's own span is none of its parts, which are beneath its stages: its client has
    named that span as its parent.
    """
    for node in tree.nodes:
        above = node.parent
        if above is not None and node.reading.entry == above.reading.entry == Entry.GATEWAY:
            above.children.remove(node)
            node.parent = None
            tree.orphans.append(node)


def _has_not_ended(entry: Node) -> bool:
    """Whether it is part of a request whose own span, which ends last, has not arrived yet, or never will: its parents form a cycle."""
    return entry.reading.inner and entry.parent is None and bool(entry.span.parent_id)


def _may_be_request(top: Node, staged: bool) -> bool:
    """Whether a span that no adapter takes for an entry is a request all the same: a server's span of an unknown
    kind, a span of the GenAI conventions, or the top of a trace whose spans name stages (`staged`). Start-up work, jobs, health probes and
    reads of pages are none.
    """
    reading = top.reading
    return staged or reading.adapter == "genai" or (top.span.kind == SERVER and reading.adapter == "generic")


def _recognised(tree: Tree) -> list[Node]:
    """The outermost entries. A part of a request that has not ended gives way to a higher entry beneath it, which has: the gateway's, where
    a model on Triton calls the gateway.
    """
    nodes = tree.nodes
    for node in reversed(nodes):
        if node.parent is not None:
            node.parent.below = max(node.parent.below, node.below, node.reading.entry)
    entries = []
    gave_way: set[bytes] = set()
    for node in nodes:
        parent = node.parent
        if parent is not None and parent.owner is not None:
            node.owner = parent.owner
            continue
        entry = node.reading.entry
        if parent is not None and parent.id in gave_way:
            gave_way.add(node.id)
            if node.reading.inner:
                continue
        elif entry and node.below > entry and _has_not_ended(node):
            gave_way.add(node.id)
            continue
        if entry and (entry >= Entry.ENGINE or node.below <= entry):
            node.owner = node
            entries.append(node)
    return entries


def _adopt(tree: Tree, requests: list[Node], staged: bool) -> list[Node]:
    """Puts each orphan that lies in time within a request beneath the deepest span around it, and returns the remaining requests.

    An orphan that is or holds an entry is adopted only by a higher kind of entry, so that two calls side by side stay two where their
    caller sends no spans. Where there are no requests, orphans that may be some become requests.
    """
    requests = list(requests)
    nothing_else = not requests
    orphans = sorted(tree.orphans, key=lambda node: (node.start - node.end, node.start, node.id))
    if len(orphans) * len(tree.nodes) > MAX_COMPARISONS:
        return requests or [orphan for orphan in orphans[:1] if _may_be_request(orphan, staged)]
    for orphan in orphans:
        rank = max(orphan.reading.entry, orphan.below)
        hosts = [host for host in requests if _contains(host, orphan) and (not rank or host.reading.entry > rank)]
        if hosts:
            host = min(hosts, key=_tightness)
            around = _deepest_around(host, orphan)
            orphan.parent = around
            around.children.append(orphan)
            for node in descend([orphan]):
                node.owner = host
            requests = [request for request in requests if request.owner is not host or request is host]
        elif nothing_else and (rank or _may_be_request(orphan, staged)):
            orphan.owner = orphan
            requests.append(orphan)
    return requests


def _contains(node: Node, other: Node) -> bool:
    return node is not other and node.start <= other.start and other.end <= node.end


def _tightness(node: Node) -> tuple[int, int, bytes]:
    return node.end - node.start, node.start, node.id


def _deepest_around(host: Node, orphan: Node) -> Node:
    while True:
        around = [child for child in host.children if _contains(child, orphan)]
        if not around:
            return host
        host = min(around, key=_tightness)


def _request(entry: Node, prepared: bool) -> Request:
    client = _calling_client(entry)
    members = descend([entry])
    if client is None:
        top, end = entry, entry.end
    else:
        top, end = client, client.end
        members.append(client)
        if client.span.status_code != ERROR:
            end = max(entry.end, end)  # many HTTP clients end their span at the headers, before the stream
    if prepared and (application := _application(entry, top)) is not None:
        top, before = application
        members += before
    return Request(entry, client, top, top.start, end, members)


def _application(entry: Node, call: Node) -> tuple[Node, list[Node]] | None:
    """The nearest span around the call in which documents were retrieved or reranked before it, and the spans that did that. None where
    the call is part of a retrieval itself, or that span made other requests beside.
    """
    around = call.parent
    for _ in range(MAX_LEVELS):
        if around is None or around.reading.stage in BEFORE_THE_CALL:
            return None
        before: list[Node] = []
        beneath = list(around.children)
        for node in beneath:  # grows as it goes
            if node.reading.stage in BEFORE_THE_CALL:
                if node.start < call.start:
                    before.append(node)
            elif node is not call:
                if node.owner is node and node is not entry:
                    return None
                beneath += node.children
        if before:
            return (around, before) if around.start <= call.start else None
        around = around.parent
    return None


def _calling_client(entry: Node) -> Node | None:
    """The CLIENT span directly above the entry, or a call of kind INTERNAL, if it made only this request and had not ended before."""
    client = entry.parent
    if client is None or client.end <= entry.start:
        return None
    if client.span.kind != CLIENT and client.reading.entry is not Entry.LOCAL:
        return None
    if any(child.owner is child for child in client.children if child is not entry):
        return None
    return client
