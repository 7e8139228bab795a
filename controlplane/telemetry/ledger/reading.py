"""What an adapter says of one span, and the node of a trace's tree that holds both."""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from controlplane.telemetry.core.spans import Span

UNATTRIBUTED = ""

Cuts = list[tuple[int, str]]
"""Instants (ns, on the trace's adjusted clock) from which a span's own time is a stage's; before the first, none's."""


class FirstToken(NamedTuple):
    """When the first token came."""

    ttft_ns: int  # from wherever the definition counts
    definition: str  # see `LedgerRow.ttft_definition`
    at_ns: int  # the instant, on the trace's adjusted clock


class Entry(IntEnum):
    """Whether a span is where a request enters, and how far out that kind of entry stands.

    From `ENGINE` up a span serves a model: the outermost such span of a branch is the request. The two below are taken
    only where no better one lies beneath them: an application's own call to a model, then any HTTP server.
    """

    NO = 0
    HTTP = 1  # an HTTP server of whatever kind
    CALL = 2  # a client's call to a model whose server sends no spans
    ENGINE = 3  # Triton, vLLM
    SERVER = 4  # an HTTP or GenAI server that answers inference requests
    GATEWAY = 5  # Weir's own


class Reading(NamedTuple):
    """One span as its adapter understands it. Shared between spans of a kind: adapters hold these as constants."""

    adapter: str
    entry: Entry = Entry.NO
    stage: str = UNATTRIBUTED  # of the span's own time: what no span beneath it on the critical path explains
    call: bool = False  # a call to a model: once the far side's own spans are seen inside, its own time is `network`
    far_side: bool = False  # the whole of a server's work on one call, as seen by that server
    cuts: Callable[["Node"], Cuts] | None = None  # where its own time changes stage within it; replaces `stage`
    first_token: Callable[["Node"], FirstToken | None] | None = None
    queue_unseen: Callable[["Node"], bool] | None = None  # of a server's span: whether nothing says how long it queued
    inner: bool = False  # always a part of another span of its server: alone it says that the request has not ended


class Node:
    """A span in its trace's tree. `start` and `end` are ns on the clock of the tree's root: its own plus `shift`."""

    __slots__ = ("below", "children", "cuts", "end", "id", "owner", "parent", "reading", "shift", "span", "start")

    def __init__(self, span: Span, reading: Reading) -> None:
        self.span = span
        self.id = span.span_id
        self.reading = reading
        self.start = span.start_ns
        self.end = span.end_ns
        self.shift = 0
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.below = Entry.NO  # the best entry strictly beneath
        self.cuts: Cuts | None = None  # once `pieces` has asked for them
        self.owner: Node | None = None  # the entry of the request it belongs to
