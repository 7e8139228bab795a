"""Traces for the ingest bench: what the gateway and Triton would send, encoded once and made unique at each send.

Encoding protobuf in Python would cost more than storing it, so a template is encoded once; a send overwrites every id
with random bytes and every time with one of its own, in place (all are fixed-width on the wire). What a store
compresses is thus as random as real traffic: ids share nothing, durations are scaled by a factor per trace.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

MS = 1_000_000
INTERNAL, SERVER, CLIENT = 1, 2, 3
Attributes = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class PlannedSpan:
    """A span before it has ids: times are ns since the trace's start, `parent` an index into the trace's spans."""

    name: str
    kind: int
    parent: int | None
    start: int
    end: int
    attributes: Attributes = field(default_factory=dict)
    events: tuple[tuple[str, int], ...] = ()
    triton: bool = False


def plan_trace(rng: np.random.Generator) -> list[PlannedSpan]:
    """One request through the gateway: three in ten hit the cache (4 spans), else Triton adds its own (11)."""
    model = str(rng.choice(["chat-small", "chat-large"], p=[0.8, 0.2]))
    tokens_in, tokens_out = int(rng.lognormal(5.5, 1.0)) + 1, int(rng.lognormal(4.0, 0.8)) + 1
    hit = bool(rng.random() < 0.3)
    replica = f"{model}-{rng.integers(0, 4)}"
    t = 0

    def after(mean_ms: float) -> int:
        nonlocal t
        t += int(rng.lognormal(np.log(mean_ms), 0.5) * MS)
        return t

    receive, lookup = (0, after(0.08)), (t, after(0.4))
    outcome = "hit" if hit else "miss"
    spans = [
        PlannedSpan("gateway.receive", INTERNAL, 0, *receive, {"weir.stage": "gateway"}),
        PlannedSpan(
            "cache.lookup",
            CLIENT,
            0,
            *lookup,
            {"weir.stage": "cache", "weir.cache.outcome": outcome, "db.system.name": "redis", "server.port": 6379},
        ),
    ]
    first = t
    if hit:
        spans.append(PlannedSpan("gateway.respond", INTERNAL, 0, t, after(0.06), {"weir.stage": "egress"}))
    else:
        spans.append(PlannedSpan("tokenizer.encode", INTERNAL, 0, t, after(0.3), {"weir.stage": "tokenizer"}))
        spans.append(PlannedSpan("admission.wait", INTERNAL, 0, t, after(0.02), {"weir.stage": "queue"}))
        call = len(spans) + 1
        began, sent = t, after(0.15)
        queued, computing = after(6), after(0.05)
        first, computed = after(80), after(12 * tokens_out)
        ended, back = after(0.05), after(0.15)
        where: Attributes = {
            "weir.replica": replica,
            "weir.pool": model,
            "weir.stage": "model",
            "server.address": "10.2.3.4",
        }
        spans += [
            PlannedSpan("model.infer", CLIENT, 0, began, back, where, (("first_token", first),)),
            PlannedSpan("InferRequest", SERVER, call, sent, ended, {}, (), triton=True),
            PlannedSpan(
                model,
                SERVER,
                call + 1,
                sent,
                ended,
                {"triton.model_name": model, "triton.model_version": 1, "triton.trace_id": int(rng.integers(1, 10**7))},
                (("REQUEST_START", sent), ("QUEUE_START", sent + 20_000), ("REQUEST_END", ended)),
                triton=True,
            ),
            PlannedSpan(
                "compute",
                SERVER,
                call + 2,
                queued,
                computed,
                {},
                (("COMPUTE_START", queued), ("COMPUTE_INPUT_END", computing), ("COMPUTE_END", computed)),
                triton=True,
            ),
            PlannedSpan("gateway.respond", INTERNAL, 0, t, after(0.06), {"weir.stage": "egress"}),
        ]
        spans.append(
            PlannedSpan("cache.write", CLIENT, 0, t, t + MS // 2, {"weir.stage": "cache", "db.system.name": "redis"})
        )
    root: Attributes = {
        "weir.request": True,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "weir",
        "gen_ai.request.model": model,
        "gen_ai.request.stream": bool(rng.random() < 0.7),
        "gen_ai.usage.input_tokens": tokens_in,
        "gen_ai.usage.output_tokens": tokens_out,
        "gen_ai.response.finish_reasons": "stop",
        "gen_ai.response.time_to_first_chunk": first / 1e9,
        "http.response.status_code": 200,
        "weir.model": model,
        "weir.variant": f"{model}-fp16",
        "weir.pool": model,
        "weir.replica": replica,
        "weir.region": (region := str(rng.choice(["eu-west", "us-east", "ap-south"]))),
        "weir.caller_region": region,
        "weir.tier": str(rng.choice(["premium", "standard", "batch"], p=[0.2, 0.6, 0.2])),
        "weir.tenant": f"team-{rng.integers(0, 40)}",
        "weir.status": "ok",
        "weir.cold_start": False,
        "weir.cost_usd": round((tokens_in + 3 * tokens_out) * 2e-7, 7),
        "weir.policy_version": 7,
        "weir.ttft_ns": first,
        "weir.cache.outcome": outcome,
    }
    return [PlannedSpan(f"chat {model}", SERVER, None, 0, t, root), *spans]


Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]


@dataclass
class Template:
    """An encoded request of many traces and where in it each id and time lies."""

    raw: Bytes
    spans: int
    traces: int
    trace_at: Integers
    trace_of: Integers
    span_at: Integers
    parent_at: Integers
    parent_of: Integers
    time_at: Integers
    time_of: Integers
    time_ns: Integers
    length_ns: Integers

    def render(self, rng: np.random.Generator, now_ns: int) -> tuple[bytes, list[bytes]]:
        """A request that was never sent before, and its traces' ids.

        The traces ended within the quarter second before `now_ns`.
        """
        trace_ids = rng.integers(0, 256, (self.traces, 16), dtype=np.uint8)
        span_ids = rng.integers(0, 256, (self.spans, 8), dtype=np.uint8)
        scale = rng.lognormal(0, 0.3, self.traces)
        starts = now_ns - (self.length_ns * scale).astype(np.int64) - rng.integers(0, 250 * MS, self.traces)
        times = starts[self.time_of] + (self.time_ns * scale[self.time_of]).astype(np.int64)
        out = self.raw.copy()
        out[self.trace_at[:, None] + np.arange(16)] = trace_ids[self.trace_of]
        out[self.span_at[:, None] + np.arange(8)] = span_ids
        out[self.parent_at[:, None] + np.arange(8)] = span_ids[self.parent_of]
        out[self.time_at[:, None] + np.arange(8)] = times.astype("<u8").view(np.uint8).reshape(-1, 8)
        return out.tobytes(), [bytes(trace_id) for trace_id in trace_ids]


def template(rng: np.random.Generator, traces: int) -> Template:
    """Encode `traces` planned traces as one ExportTraceServiceRequest, as the OpenTelemetry SDK batches them."""
    request = ExportTraceServiceRequest()
    gateway = _resource(request, {"service.name": "weir-gateway", "service.instance.id": "gateway-0"}, "weir.gateway")
    triton = _resource(request, {"service.name": "triton", "telemetry.sdk.language": "cpp"}, "triton-server")
    plans = [plan_trace(rng) for _ in range(traces)]
    fresh = (number.to_bytes(8, "big") for number in count(0xF1E2D3C4 << 32))  # a pattern nothing else contains
    fixed = (int.from_bytes(next(fresh), "little") for _ in count())
    # Every id and time gets a pattern of its own, which is then looked up in what was encoded.
    trace_at: list[tuple[bytes, int]] = []
    span_at: list[bytes] = []
    parent_at: list[tuple[bytes, int]] = []
    time_at: list[tuple[bytes, int, int]] = []
    first = 0
    for number, plan in enumerate(plans):
        for planned in plan:
            span = (triton if planned.triton else gateway).spans.add(name=planned.name, kind=planned.kind)
            span.trace_id, span.span_id = next(fresh) + next(fresh), next(fresh)
            trace_at.append((span.trace_id, number))
            span_at.append(span.span_id)
            if planned.parent is not None:
                span.parent_span_id = next(fresh)
                parent_at.append((span.parent_span_id, first + planned.parent))
            span.start_time_unix_nano, span.end_time_unix_nano = next(fixed), next(fixed)
            marks = [(span.start_time_unix_nano, planned.start), (span.end_time_unix_nano, planned.end)]
            for name, at in planned.events:
                event = span.events.add(name=name, time_unix_nano=next(fixed))
                marks.append((event.time_unix_nano, at))
            time_at += [(mark.to_bytes(8, "little"), number, at) for mark, at in marks]
            span.attributes.extend(_attributes(planned.attributes))
        first += len(plan)
    raw = request.SerializeToString()
    where = _positions(raw)
    return Template(
        raw=np.frombuffer(raw, np.uint8),
        spans=first,
        traces=traces,
        trace_at=np.array([where[pattern[:8]] for pattern, _ in trace_at]),
        trace_of=np.array([number for _, number in trace_at]),
        span_at=np.array([where[pattern] for pattern in span_at]),
        parent_at=np.array([where[pattern] for pattern, _ in parent_at]),
        parent_of=np.array([index for _, index in parent_at]),
        time_at=np.array([where[pattern] for pattern, _, _ in time_at]),
        time_of=np.array([number for _, number, _ in time_at]),
        time_ns=np.array([at for _, _, at in time_at]),
        length_ns=np.array([plan[0].end for plan in plans]),
    )


def _positions(raw: bytes) -> dict[bytes, int]:
    """Where each 8-byte pattern lies."""
    prefix = (0xF1E2D3C4).to_bytes(4, "big")
    found: dict[bytes, int] = {}
    at = raw.find(prefix)
    while at >= 0:
        found[raw[at : at + 8]] = at
        at = raw.find(prefix, at + 8)
    return found


def _resource(request: ExportTraceServiceRequest, attributes: Attributes, scope: str) -> Any:
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.extend(_attributes(attributes))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    return scope_spans


def _attributes(values: Attributes) -> list[KeyValue]:
    out = []
    for key, value in values.items():
        pair = KeyValue(key=key)
        if isinstance(value, bool):
            pair.value.bool_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        elif isinstance(value, float):
            pair.value.double_value = value
        else:
            pair.value.string_value = value
        out.append(pair)
    return out
