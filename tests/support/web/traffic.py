"""A quarter of an hour at a gateway, as spans: two models, a cache, tiers, a gap, and a queue that grows on the larger model.

The spans follow the span contract of docs/architecture.md; rows come from them through the ledger, as in the product.
"""

import random
from collections.abc import Iterator

from controlplane.telemetry.core.spans import CLIENT, INTERNAL, SERVER, AttrValue, Event, Span
from controlplane.telemetry.ledger.close import close
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from controlplane.telemetry.store.write.arrow_columns import span_table

MS = 1_000_000
MODELS = {"chat-large": (34, 21), "chat-small": (9, 6)}  # prefill ms for a prompt of 1000 tokens, ms per output token
AUDITED: dict[str, AttrValue] = {
    "weir.audit.prompt": f"0a1b2c3d:{'ab' * 32}", "weir.audit.prompt_bytes": 5_120,
    "weir.audit.answer": f"0a1b2c3d:{'cd' * 32}", "weir.audit.answer_bytes": 9_216, "weir.guard": ("docs/cards masked",),
}  # fmt: skip
"""Of the tenant `docs`, which asks for an audit of its texts."""
STAGE_OF = {
    "gateway.receive": "gateway",
    "cache.lookup": "cache",
    "tokenizer.encode": "tokenizer",
    "admission.wait": "queue",
    "gateway.respond": "egress",
}


def requests(count: int, from_ns: int, to_ns: int, seed: int = 7) -> Iterator[list[Span]]:
    """The spans of `count` requests, spread over the range but for a gap after its middle; the queue grows in its last third."""
    source = random.Random(seed)
    for number in range(count):
        part = number / count
        part += 0.06 if part > 0.5 else 0.0
        at = from_ns + int((to_ns - from_ns) * (part / 1.06 + source.random() * 0.004))
        yield request(source, at, busy=max(0.0, (part - 0.70) / 0.36))


def request(source: random.Random, at: int, busy: float = 0.0, model: str = "", **fixed: str) -> list[Span]:
    """One request's spans. `busy` 0..1 is how long the larger model's queue is."""
    model = model or source.choices(list(MODELS), [0.4, 0.6])[0]
    trace_id = source.randbytes(16)
    tokens = min(30_000, int(source.lognormvariate(6.3, 1.1)))
    output = max(2, min(400, int(source.lognormvariate(3.6, 0.6))))
    hit = source.random() < 0.25
    failed = not hit and source.random() < 0.012 + 0.05 * busy
    prefill_1k, per_token = MODELS[model]
    pool, replica = f"{model}-local", f"{model}-{source.randint(0, 1)}"
    root_id, spans = source.randbytes(8), []
    now = at

    def span(
        name: str, ms: float, attributes: dict[str, AttrValue] | None = None, kind: int = INTERNAL, **more: object
    ) -> Span:
        nonlocal now
        start, now = now, now + int(ms * MS)
        stage = STAGE_OF.get(name)
        made = Span(
            trace_id, source.randbytes(8), root_id, name, kind, start, now, 0, "weir-gateway", "weir.gateway",
            {**({"weir.stage": stage} if stage else {}), **(attributes or {})}, (),
        )._replace(**more)  # fmt: skip
        spans.append(made)
        return made

    span("gateway.receive", source.uniform(0.15, 0.5))
    span(
        "cache.lookup",
        source.uniform(0.3, 0.9),
        {"weir.cache.outcome": "hit" if hit else "miss", "db.system.name": "redis"},
        CLIENT,
    )
    first_token = now
    if not hit:
        span("tokenizer.encode", 0.2 + tokens / 4000, {"gen_ai.usage.input_tokens": tokens})
        waits = source.expovariate(1 / (4000 * busy)) if busy and model == "chat-large" else source.uniform(0, 0.3)
        span("admission.wait", waits, {"weir.tier": "standard"})
        began = now
        inner_queue = source.uniform(0.4, 6)
        prefill = prefill_1k * tokens / 1000 + source.uniform(4, 12)
        decode = 0.0 if failed else per_token * output * source.uniform(0.9, 1.15)
        network = source.uniform(0.2, 0.6)
        first_token = began + int((network + inner_queue + prefill) * MS)
        infer = span(
            "model.infer", 2 * network + inner_queue + prefill + decode,
            {"weir.stage": "model", "weir.pool": pool, "weir.replica": replica, "rpc.system": "grpc"}, CLIENT,
            events=() if failed else (Event(first_token, "first_token"),), status_code=2 if failed else 0,
        )  # fmt: skip
        spans += _triton(source, infer, model, began + int(network * MS), inner_queue, prefill + decode)
    span("gateway.respond", source.uniform(0.05, 0.3))
    now += int(source.uniform(0.01, 0.06) * MS)
    status = "error" if failed else "ok"
    root = Span(
        trace_id, root_id, b"", f"chat {model}", SERVER, at, now, 2 if failed else 0, "weir-gateway", "weir.gateway",
        {
            "weir.request": True, "gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.request.stream": True,
            "gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 0 if failed else output,
            "gen_ai.response.finish_reasons": ("stop",), "http.response.status_code": 502 if failed else 200,
            "weir.model": model, "weir.variant": f"{model}-fp16", "weir.pool": pool, "weir.replica": replica, "weir.region": "local",
            "weir.caller_region": "local",
            "weir.tier": source.choices(["premium", "standard", "batch"], [0.15, 0.7, 0.15])[0],
            "weir.tenant": source.choice(["search", "support", "docs"]),
            "weir.status": status, "weir.cost_usd": round(tokens * 2e-7 + output * 8e-7, 7), "weir.policy_version": 3,
            "weir.cache.outcome": "hit" if hit else "miss", **({} if failed else {"weir.ttft_ns": first_token - at}),
            **({"error.type": "backend_error", "weir.error_stage": "model"} if failed else {}), **fixed,
        },
    )  # fmt: skip
    if root.attributes["weir.tenant"] == "docs":
        root.attributes.update(AUDITED if not failed else dict(list(AUDITED.items())[:2]))
    return [root, *spans]


def _triton(source: random.Random, infer: Span, model: str, at: int, queue_ms: float, compute_ms: float) -> list[Span]:
    """What Triton 2.51 sends: three nested spans of kind SERVER, their stages as events."""
    computed = at + int((queue_ms + compute_ms) * MS)
    begun = at + int(queue_ms * MS)
    request = Span(
        infer.trace_id, source.randbytes(8), infer.span_id, "InferRequest", SERVER, at, computed, 0, "triton", "triton-server", {},
    )  # fmt: skip
    inner = request._replace(
        span_id=source.randbytes(8), parent_id=request.span_id, name=model,
        attributes={"triton.model_name": model, "triton.model_version": 1},
        events=(Event(at, "REQUEST_START"), Event(at, "QUEUE_START"), Event(computed, "REQUEST_END")),
    )  # fmt: skip
    compute = request._replace(
        span_id=source.randbytes(8), parent_id=inner.span_id, name="compute", start_ns=begun,
        events=(
            Event(begun, "COMPUTE_START"), Event(begun + 20_000, "COMPUTE_INPUT_END"),
            Event(computed - 10_000, "COMPUTE_OUTPUT_START"), Event(computed, "COMPUTE_END"),
        ),
    )  # fmt: skip
    return [request, inner, compute]


def fill(store: Store, count: int, from_ns: int, to_ns: int, seed: int = 7) -> list[LedgerRow]:
    """Write `count` requests; answers their rows, the store's own order aside."""
    traces = list(requests(count, from_ns, to_ns, seed))
    rows = [row for spans in traces for row in close(spans)]
    store.writer.insert_span_columns(span_table([span for spans in traces for span in spans]))
    store.writer.insert_requests(rows, to_ns)
    return rows
