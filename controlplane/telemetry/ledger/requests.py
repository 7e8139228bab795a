"""Which spans of a trace are requests, which spans belong to each, and from when to when a request lasts."""

from typing import NamedTuple

from controlplane.telemetry.core.spans import CLIENT
from controlplane.telemetry.ledger.reading import Entry, Node
from controlplane.telemetry.ledger.tree import MAX_NS, Tree, descend

ERROR = 2
MAX_COMPARISONS = 1_000_000
"""Orphans are matched to requests by time, which is quadratic: beyond this many comparisons they are left out."""


class Request(NamedTuple):
    entry: Node
    client: Node | None  # the caller's span around it, where the window is the caller's
    start: int
    end: int
    members: list[Node]  # every span that belongs to it, the entry first


def find(tree: Tree) -> list[Request]:
    """The requests of a trace, in order of their entries' times.

    Entries are the outermost spans that an adapter recognises (see `Entry`); where there is none, the true roots.
    A span whose parent is missing is given back to the request it lies in (see `_adopt`). What is in progress is no request yet.
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
    """Whether it is a part of a request whose own span, which ends last, is not here yet."""
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
    """The requests once each orphan that lies in time within one is beneath the deepest span of it around the orphan.

    An orphan that is (or holds) an entry is adopted only by a kind of entry further out, so two calls side by side in a
    trace whose caller sends no spans stay two. Where nothing is recognised and no root is here, orphans stand for
    requests.
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


def _contains(one: Node, other: Node) -> bool:
    return one is not other and one.start <= other.start and other.end <= one.end


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
        end = min(entry.end, MAX_NS)  # many HTTP clients close their span at the headers, before a stream has come
    return Request(entry, client, client.start, end, [*descend([entry]), client])


def _calling_client(entry: Node) -> Node | None:
    """The CLIENT span right above the entry, if it made just this one request and overlaps it in time."""
    client = entry.parent
    if client is None or client.span.kind != CLIENT:
        return None
    if client.start >= entry.end or entry.start >= client.end:
        return None
    if any(child.owner is child for child in client.children if child is not entry):
        return None
    return client
