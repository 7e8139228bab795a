"""The reading that an adapter gives of a span, and the node of a trace's tree that holds both."""

from collections.abc import Callable
from enum import IntEnum, auto
from typing import NamedTuple

from controlplane.telemetry.core.spans import Span

UNATTRIBUTED = ""

Cuts = list[tuple[int, str]]
"""Instants (ns, on the trace's adjusted clock), each with the stage of the span's own time from there on. Before the first it has none."""


class FirstToken(NamedTuple):
    ttft_ns: int  # from where the definition counts
    definition: str  # see `LedgerRow.ttft_definition`
    at_ns: int  # the instant, on the trace's adjusted clock


class Entry(IntEnum):
    """Whether a request enters at a span, ordered by how far from the model such a span is.

    From `ENGINE` up a span serves a model, and the outermost such span of a branch is the request. `HTTP`, `LOCAL` and `CALL` count only
    where no higher entry lies beneath them.
    """

    NO = 0
    HTTP = auto()  # an HTTP server of whatever kind
    LOCAL = auto()  # a call to a model, of kind INTERNAL: within its process, or by an SDK that makes no others
    CALL = auto()  # a client's call to a model whose server sends no spans
    ENGINE = auto()  # Triton, vLLM
    SERVER = auto()  # an HTTP or GenAI server that answers inference requests
    GATEWAY = auto()  # Weir's own


class Reading(NamedTuple):
    """What an adapter says of a span. Adapters hold readings as constants, which spans of a kind share."""

    adapter: str
    entry: Entry = Entry.NO
    stage: str = UNATTRIBUTED  # of the span's own time, which no span beneath it on the critical path explains
    call: bool = False  # a call to a model: where the server's spans are known, its own time is `network`
    cuts: Callable[["Node"], Cuts] | None = None  # where its own time changes stage within it; replaces `stage`
    first_token: Callable[["Node"], FirstToken | None] | None = None
    queue_missing: Callable[["Node"], bool] | None = None  # of a server's span: whether the queue time is not known
    load: bool = False  # a model's load into a server: never a request, but a cold start
    beside: bool = False  # work that was not waited for: it takes none of the request's time
    inner: bool = False  # always part of another span of its server; without that the request has not ended


class Node:
    """A span in its trace's tree. `start` and `end` are ns on the clock of the tree's root: the span's own plus `shift`."""

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
        self.below = Entry.NO  # the highest entry beneath
        self.cuts: Cuts | None = None  # set by `stages_within`
        self.owner: Node | None = None  # the entry of the request it belongs to


def by_time(node: Node) -> tuple[int, bytes]:
    """The order of spans that start one after another, the same whatever came first."""
    return node.start, node.id
