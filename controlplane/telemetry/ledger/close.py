"""Closes the ledger of a trace: makes one row per request, which accounts for every nanosecond of it.

    >>> [(row.e2e_ns, row.stages, row.unattributed_ns) for row in close(spans)]

The same spans give the same rows in any order and with any repeats. No attribute raises or breaks the sum. A gateway's trace of
eight spans takes 60 to 100 µs (CPython 3.11; one core of a 2-core machine, idle to overloaded; 1,000 integer additions in a loop take
32 µs there): the tree, the path and the row's 40 columns about a third each.
"""

from collections.abc import Sequence

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.ledger import dimensions
from controlplane.telemetry.ledger.adapters import weir
from controlplane.telemetry.ledger.attempts import attempt_nodes, booked, owner, retried, unmeasured
from controlplane.telemetry.ledger.attribute_index import index_of
from controlplane.telemetry.ledger.attributes import Attributes, count, flag, text, texts
from controlplane.telemetry.ledger.critical_path import Section, critical_path
from controlplane.telemetry.ledger.own_time import answered, stages_within
from controlplane.telemetry.ledger.reading import UNATTRIBUTED, Entry, Node, by_time
from controlplane.telemetry.ledger.requests import ERROR, Request, find
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.ledger.tree import build
from inference.contract.stages import INTERNAL, STAGES

FIRST_TOKEN = "first_token"  # noqa: S105  (an event's name)
_NO_TIME = dict.fromkeys((*STAGES, UNATTRIBUTED), 0)


def close(spans: Sequence[Span]) -> list[LedgerRow]:
    """All requests of one trace by the spans known now, in order of their entries.

    Close a trace again whenever more of it arrives. The identity of a request whose entry span is known never changes. A span that stood
    in for a missing entry (Triton's, before the gateway's has arrived) is not an entry any more once that arrives: a row that a later
    closing leaves out must be withdrawn.

    Spans of Weir's own work are left out with what is beneath them, because opening the latency page is not a request, nor is a
    warm-up or a benchmark.
    """
    tree = build(of_users(spans))
    rows = [_row(request) for request in find(tree)]
    for node in tree.nodes:  # breaks reference cycles, so that nodes are freed without the garbage collector
        node.parent = node.owner = None
    return rows


def of_users(spans: Sequence[Span]) -> Sequence[Span]:
    """Without Weir's own work (`inference/contract/stages.py`). A gateway's request is kept, whatever its parent: its client
    chooses that.
    """
    own = {span.span_id for span in spans if INTERNAL in span.attributes and not flag(span.attributes, weir.REQUEST)}
    if not own:
        return spans
    beneath: dict[bytes, list[Span]] = {}
    for span in spans:
        beneath.setdefault(span.parent_id, []).append(span)
    above = list(own)
    for span_id in above:  # grows as it goes
        for span in beneath.get(span_id, ()):
            if span.span_id not in own and not flag(span.attributes, weir.REQUEST):
                own.add(span.span_id)
                above.append(span.span_id)
    return [span for span in spans if span.span_id not in own]


def _row(request: Request) -> LedgerRow:
    entry = request.entry
    span = entry.span
    own = span.attributes
    path = critical_path(request.top, request.start, request.end)
    ttft_ns, definition, first_token_at = _first_token(request)
    calls = attempt_nodes(request)
    stages, prefill_ns, decode_ns, model_ns = _tally(path, first_token_at, calls)
    unattributed_ns = stages.pop(UNATTRIBUTED)
    sources = dimensions.sources(request)
    status, http_status, error_type = dimensions.outcome(request)
    server = dimensions.server(request)
    pool = text(own, "weir.pool") or text(server.span.resource, "weir.pool")
    label_index, attribute_index = index_of([node.span for node in request.members])
    return LedgerRow(
        trace_id=span.trace_id.hex(),
        request_id=span.span_id.hex(),
        entry_start_ns=entry.start - entry.shift,
        start_ns=request.start,
        end_ns=request.end,
        e2e_ns=request.end - request.start,
        stages=stages,
        unattributed_ns=unattributed_ns,
        prefill_ns=prefill_ns,
        decode_ns=decode_ns,
        ttft_ns=ttft_ns,
        ttft_definition=definition,
        status=status,
        http_status=http_status,
        error_type=error_type,
        error_stage=text(own, "weir.error_stage") or (_error_stage(path, http_status) if status == "error" else ""),
        operation=dimensions.operation(sources),
        service=span.service,
        model=dimensions.model(sources, request, server),
        variant=text(own, "weir.variant") or text(server.span.resource, "weir.variant"),
        pool=pool,
        replica=text(own, "weir.replica") or text(server.span.resource, "weir.replica"),
        region=text(own, "weir.region") or text(server.span.resource, "weir.region"),
        tier=text(own, "weir.tier"),
        tenant=text(own, "weir.tenant"),
        prompt_tokens=dimensions.prompt_tokens(sources),
        cached_tokens=dimensions.cached_tokens(sources),
        output_tokens=dimensions.output_tokens(sources),
        cache_outcome=text(own, "weir.cache.outcome"),
        stream=dimensions.stream(sources),
        cold_start=flag(own, "weir.cold_start"),
        cost_usd=dimensions.cost_usd(own),
        policy_version=count(own, "weir.policy_version"),
        span_count=len(request.members),
        adapter=entry.reading.adapter,
        critical_path=tuple(dict.fromkeys(node.id.hex() for node, _, _ in reversed(path))),
        attempts=booked(request, calls, model_ns),
        policy_rule=text(own, "weir.policy.rule"),
        degraded=text(own, "weir.degraded"),
        caller_region=text(own, "weir.caller_region"),
        repeated=flag(own, "weir.repeated"),
        can_wait=flag(own, "weir.can_wait"),
        idempotency_key=count(own, "weir.idempotency_key") or 0,
        prompt_hash=text(own, "weir.audit.prompt"),
        prompt_bytes=count(own, "weir.audit.prompt_bytes"),
        answer_hash=text(own, "weir.audit.answer"),
        answer_bytes=count(own, "weir.audit.answer_bytes"),
        guard=", ".join(texts(own, "weir.guard")),
        unmeasured=unmeasured(request),
        origin=() if pool else dimensions.origin(request.client.span if request.client else None, server.span),
        label_index=label_index,
        attribute_index=attribute_index,
    )


def _first_token(request: Request) -> tuple[int | None, str, int | None]:
    """TTFT, its definition, and the instant that separates prefill from decode; None where not known."""
    ttft_ns: int | None = None
    definition = ""
    at: int | None = None
    entry = request.entry
    for node in _outermost_first(request):
        first_token = node.reading.first_token and node.reading.first_token(node)
        if first_token:
            ttft_ns, definition, at = first_token
            break
    event_times = [
        event.time_ns + node.shift
        for node in request.members
        if node.reading.call
        for event in node.span.events
        if event.name == FIRST_TOKEN
    ]
    if event_times:
        at = min(event_times)
    elif at is None and entry.reading.entry is Entry.GATEWAY and not _came_whole(entry.span.attributes):
        at = request.end  # the gateway records the first token, so there was none
    return ttft_ns, definition, at


def _came_whole(attributes: Attributes) -> bool:
    """Whether it was answered, and not as a stream: then nothing says when the first token was there. Its server may not count tokens."""
    answered = text(attributes, "weir.status") == "ok" and count(attributes, "gen_ai.usage.output_tokens") != 0
    return answered and attributes.get("gen_ai.request.stream") is False


def _outermost_first(request: Request) -> list[Node]:
    """The spans that may have the time of the first token: the entry, then those inside it by time, then the caller's."""
    nodes = [node for node in request.members if node.reading.first_token is not None]
    return sorted(nodes, key=lambda node: (node is not request.entry, node is request.client, by_time(node)))


def _tally(
    path: list[Section], first_token_at: int | None, calls: list[Node]
) -> tuple[dict[str, int], int, int, list[int]]:
    """Nanoseconds by stage, unattributed among them; the model time before and after the first token; and the model time of each attempt.

    An attempt that another one followed is neither prefill nor decode. Both are 0 where the instant of the first token is not known.
    """
    model_ns = [0] * len(calls)
    again = [retried(node) for node in calls]
    retried_ns = 0
    ns = _NO_TIME.copy()
    prefill_ns = 0
    for node, section_start, section_end in path:
        for stage, start, end in stages_within(node, section_start, section_end):
            ns[stage] += end - start
            if stage != "model":
                continue
            index = owner(node, calls) if calls else -1
            if index >= 0:
                model_ns[index] += end - start
                if again[index]:
                    retried_ns += end - start
                    continue
            if first_token_at is not None:
                prefill_ns += max(0, min(first_token_at, end) - start)
    decode_ns = 0 if first_token_at is None else ns["model"] - retried_ns - prefill_ns
    return ns, prefill_ns, decode_ns, model_ns


def _error_stage(path: list[Section], http_status: int | None) -> str:
    """The stage of the last span on the path that failed; empty where that is a call to a model that no server is known to have taken."""
    failed = next((node for node, _, _ in path if node.span.status_code == ERROR and node.reading.stage), None)
    if failed is None or (failed.reading.call and http_status is None and not answered(failed)):
        return ""
    return failed.reading.stage
