"""Makes traces from one line per span, with times in nanoseconds."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, AttrValue, Event, Span
from controlplane.telemetry.ledger.row import LedgerRow

TRACE = bytes(range(16))
_numbers = itertools.count(1)


def span(
    name: str,
    start: int,
    end: int,
    parent: Span | bytes = b"",
    *,
    kind: int = INTERNAL,
    service: str = "app",
    scope: str = "",
    status: int = 0,
    span_id: bytes = b"",
    events: Iterable[tuple[str, int]] = (),
    also: Mapping[str, AttrValue] = {},
    **attributes: AttrValue,
) -> Span:
    """A span; attribute names are given with `__` for the dot, or as they are in `also`."""
    return Span(
        trace_id=TRACE,
        span_id=span_id or next(_numbers).to_bytes(8, "big"),
        parent_id=parent.span_id if isinstance(parent, Span) else parent,
        name=name,
        kind=kind,
        start_ns=start,
        end_ns=end,
        status_code=status,
        service=service,
        scope=scope,
        attributes=dotted(attributes | dict(also)),
        events=tuple(Event(time, event) for event, time in events),
    )


def dotted(attributes: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    return {name.replace("__", "."): value for name, value in attributes.items()}


def gateway(
    name: str,
    start: int,
    end: int,
    parent: Span | bytes = b"",
    *,
    stage: str = "",
    also: Mapping[str, AttrValue] = {},
    **more: Any,
) -> Span:
    """A span of Weir's gateway; `more` is as for any span."""
    staged: dict[str, AttrValue] = {"weir.stage": stage} if stage else {}
    return span(
        name, start, end, parent, service="weir-gateway", scope="weir.gateway", also=staged | dict(also), **more
    )


def gateway_trace(at: int = 1000, parent: Span | bytes = b"", root: Mapping[str, AttrValue] = {}) -> list[Span]:
    """A cache miss answered by a model, 1,000 long: the eight spans of docs/architecture.md, without Triton's."""
    more: dict[str, AttrValue] = {
        "weir__request": True,
        "weir__ttft_ns": 400,
        "weir__model": "chat",
        "weir__variant": "chat-small",
        "weir__pool": "chat-small/eu",
        "weir__replica": "chat-small-0",
        "weir__region": "eu",
        "weir__tier": "premium",
        "weir__tenant": "acme",
        "weir__status": "ok",
        "weir__cold_start": False,
        "weir__cost_usd": 0.0021,
        "weir__policy_version": 7,
        "weir__cache__outcome": "miss",
        "gen_ai__operation__name": "chat",
        "gen_ai__request__model": "chat",
        "gen_ai__request__stream": True,
        "gen_ai__usage__input_tokens": 600,
        "gen_ai__usage__output_tokens": 40,
        "http__response__status_code": 200,
        **root,
    }
    top = gateway("chat chat", at, at + 1000, parent, kind=SERVER, also=more)
    return [
        top,
        gateway("gateway.receive", at, at + 30, top, stage="gateway"),
        gateway("cache.lookup", at + 30, at + 50, top, kind=CLIENT, stage="cache"),
        gateway("tokenizer.encode", at + 50, at + 90, top, stage="tokenizer"),
        gateway("admission.wait", at + 90, at + 190, top, stage="queue"),
        gateway("model.infer", at + 200, at + 970, top, kind=CLIENT, stage="model", events=[("first_token", at + 400)]),
        gateway("gateway.respond", at + 970, at + 1000, top, stage="egress"),
        gateway("cache.write", at + 1010, at + 1050, top, kind=CLIENT, stage="cache"),
    ]


def spent(row: LedgerRow) -> dict[str, int]:
    """The stages that took any time, `unattributed` among them."""
    stages = {stage: ns for stage, ns in row.stages.items() if ns}
    return stages | ({"unattributed": row.unattributed_ns} if row.unattributed_ns else {})


def assert_closes(rows: Sequence[LedgerRow]) -> None:
    for row in rows:
        assert all(type(ns) is int and ns >= 0 for ns in row.stages.values())
        assert row.unattributed_ns >= 0
        assert sum(row.stages.values()) + row.unattributed_ns == row.e2e_ns == row.end_ns - row.start_ns
        assert row.prefill_ns >= 0 and row.decode_ns >= 0
        assert row.prefill_ns + row.decode_ns in (0, row.stages["model"] - row.retried_ns)
        assert sum(attempt.model_ns for attempt in row.attempts) <= row.stages["model"]


def triton(
    name: str, start: int, end: int, parent: Span | bytes, *, events: list[tuple[str, int]], model: bool = False
) -> Span:
    named = {"triton__model_name": name} if model else {}
    return span(
        name, start, end, parent, kind=SERVER, service="triton", scope="triton-server", events=events, also=named
    )


def in_gateway() -> list[Span]:
    """`gateway_trace` with its call from 1200 to 1970, and a streaming Triton inside it from 1210 to 1960."""
    spans = gateway_trace()
    sends = [("GRPC_SEND_START", 1390), ("GRPC_SEND_START", 1700), ("GRPC_SEND_START", 1955)]
    request = triton("InferRequest", 1210, 1960, spans[5], events=[("GRPC_WAITREAD_START", 1205), *sends])
    chat = triton("chat", 1212, 1300, request, events=[("REQUEST_START", 1212), ("QUEUE_START", 1215)], model=True)
    compute = triton("compute", 1290, 1295, chat, events=[("COMPUTE_START", 1290)])
    return [*spans, request, chat, compute]
