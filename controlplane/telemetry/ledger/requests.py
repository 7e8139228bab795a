"""Finds the requests of a trace, the spans that belong to each, and its start and end."""

from typing import NamedTuple

from controlplane.telemetry.core.spans import CLIENT
from controlplane.telemetry.ledger.reading import Entry, Node
from controlplane.telemetry.ledger.tree import MAX_NS, Tree, descend

ERROR = 2
MAX_COMPARISONS = 1_000_000
"""Orphans are matched to requests by time, which is quadratic. Above this many comparisons they are left out."""


class Request(NamedTuple):
    entry: Node
    client: Node | None  # the caller's span around it, which then has the start and the end
    start: int
    end: int
    members: list[Node]  # every span that belongs to it, the entry first


def find(tree: Tree) -> list[Request]:
    """The requests of a trace that have ended, in order of their entries' times.

    Entries are the outermost spans that an adapter recognises (see `Entry`), or the roots where there is none. A span whose parent is
    missing is given to the request that contains it in time (see `_adopt`).
    """
    entries = _recognised(tree)
    if tree.orphans:
        entries = _adopt(tree, entries or tree.roots)
    elif not entries:
        entries = tree.roots
    entries = [entry for entry in entries if not _has_not_ended(entry)]
    for entry in entries:
        entry.owner = entry
    if len(entries) == 1:
        return [_request(entries[0])]
    return [_request(entry) for entry in sorted(entries, key=lambda node: (node.start, node.id))]


def _has_not_ended(entry: Node) -> bool:
    """Whether it is part of a request whose own span, which ends last, has not arrived yet."""
    return entry.reading.inner and entry.parent is None and bool(entry.span.parent_id.strip(b"\0"))


def _recognised(tree: Tree) -> list[Node]:
    nodes = tree.nodes
    if tree.orphans or any(0 < node.reading.entry < Entry.ENGINE for node in nodes):
        for node in reversed(nodes):
            parent = node.parent
            if parent is not None:
                parent.below = max(parent.below, node.below, node.reading.entry)
    entries = []
    for node in nodes:
        parent = node.parent
        if parent is not None and parent.owner is not None:
            node.owner = parent.owner
            continue
        entry = node.reading.entry
        if entry and (entry >= Entry.ENGINE or node.below <= entry):
            node.owner = node
            entries.append(node)
    return entries


def _adopt(tree: Tree, requests: list[Node]) -> list[Node]:
    """Puts each orphan that lies in time within a request beneath the deepest span around it, and returns the remaining requests.

    An orphan that is or holds an entry is adopted only by a higher kind of entry, so that two calls side by side stay two where their
    caller sends no spans. Where there is neither an entry nor a root, orphans become requests.
    """
    requests = list(requests)
    nothing_else = not requests
    orphans = sorted(tree.orphans, key=lambda node: (node.start - node.end, node.start, node.id))
    if len(orphans) * len(tree.nodes) > MAX_COMPARISONS:
        return requests or orphans[:1]
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
        elif nothing_else:
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


def _request(entry: Node) -> Request:
    client = _calling_client(entry)
    if client is None:
        return Request(entry, None, entry.start, entry.end, descend([entry]))
    end = client.end
    if entry.end > end and client.span.status_code != ERROR:
        end = min(entry.end, MAX_NS)  # many HTTP clients end their span at the headers, before the stream
    return Request(entry, client, client.start, end, [*descend([entry]), client])


def _calling_client(entry: Node) -> Node | None:
    """The CLIENT span directly above the entry, if it made only this request and overlaps it in time."""
    client = entry.parent
    if client is None or client.span.kind != CLIENT:
        return None
    if client.start >= entry.end or entry.start >= client.end:
        return None
    if any(child.owner is child for child in client.children if child is not entry):
        return None
    return client
