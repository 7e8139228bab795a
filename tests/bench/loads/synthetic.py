"""Traffic by the million, as columns: what a day of a busy gateway leaves in the store. Made with numpy, not span by span.

Each request is five spans (`chat`, `cache.lookup`, `tokenizer.encode`, `admission.wait`, `model.infer` with its `first_token` event) with
the attributes of the span contract, and the ledger row that closes over them. A fiftieth of the rows is written twice, as amended rows are.

`python -m tests.bench.loads.synthetic DSN --requests 200000` loads a store.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.spans import AttrValue, Span
from controlplane.telemetry.ledger.attribute_index import index_of
from controlplane.telemetry.ledger.row import PROMPT_BUCKET_EDGES, prompt_bucket
from controlplane.telemetry.store import Store, migrate
from controlplane.telemetry.store.write.arrow_columns import (
    ATTEMPT,
    REQUEST_SCHEMA,
    SPAN_SCHEMA,
    attribute_value,
    label_columns,
)
from inference.contract.stages import STAGES

SPANS_PER_REQUEST = 5
LATE_NS = 30 * 10**9
MODELS = np.array(["llama-3-8b", "llama-3-70b", "mistral-small", "qwen-2.5-32b"])
REPLICAS = np.array([f"10.0.{pool}.{number}:8001" for pool in range(4) for number in range(8)])
TIERS = np.array(["premium", "standard", "batch"])
TENANTS = np.array([f"tenant-{number:03d}" for number in range(200)])
REGIONS = np.array(["eu-west-1", "us-east-1"])
OUTCOMES = np.array(["hit", "miss", "bypass"])
STATUSES = np.array(["ok", "error", "rejected", "cancelled"])
HTTP = np.array([200, 500, 429, 499], np.uint16)
_BUCKETS = np.array(
    [prompt_bucket(edge - 1) for edge in PROMPT_BUCKET_EDGES] + [prompt_bucket(PROMPT_BUCKET_EDGES[-1])]
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some requests, whole: their spans (SPAN_SCHEMA) and rows (REQUEST_SCHEMA), in order of entry time."""

    spans: pa.Table
    requests: pa.Table


def synthetic(requests: int, *, from_ns: int, to_ns: int, seed: int = 1, batch: int = 20_000) -> Iterator[Batch]:
    """`requests` requests spread evenly over the window, in batches of `batch`, the same for the same seed.

    Batches follow one another in time, and each reaches back LATE_NS into those before: a row is written once its request is over."""
    source = np.random.default_rng(seed)
    for first in range(0, requests, batch):
        count = min(batch, requests - first)
        low = max(from_ns, from_ns + (to_ns - from_ns) * first // requests - LATE_NS)
        high = from_ns + (to_ns - from_ns) * (first + count) // requests
        yield _batch(source, np.sort(source.integers(low, high, count)).astype(np.uint64))


def _batch(source: np.random.Generator, entry: np.ndarray) -> Batch:
    n = len(entry)
    trace = source.bytes(16 * n)
    ids = np.frombuffer(source.bytes(8 * n * SPANS_PER_REQUEST), "V8").reshape(n, SPANS_PER_REQUEST)
    model = source.choice(4, n, p=[0.5, 0.2, 0.2, 0.1])
    replica = REPLICAS[model * 8 + source.integers(0, 8, n)]
    tier, region = TIERS[source.choice(3, n, p=[0.1, 0.7, 0.2])], REGIONS[source.integers(0, 2, n)]
    tenant = TENANTS[np.minimum(source.zipf(1.3, n), 200) - 1]
    outcome = OUTCOMES[source.choice(3, n, p=[0.3, 0.6, 0.1])]
    status = source.choice(4, n, p=[0.97, 0.01, 0.01, 0.01])
    prompt = np.minimum(source.lognormal(6.3, 1.2, n), 200_000).astype(np.uint32) + 1
    output = np.minimum(source.lognormal(4.5, 0.8, n), 4_000).astype(np.uint32) + 1

    def spread(median_ms: float, sigma: float) -> np.ndarray:
        return (source.lognormal(np.log(median_ms * 1e6), sigma, n)).astype(np.uint64)

    hit = outcome == "hit"
    gateway, tokenizer, cache = spread(0.3, 0.3), spread(0.5, 0.4), spread(0.4, 0.5)
    queue = np.where(hit, np.uint64(0), spread(8, 1.2))
    prefill = np.where(hit, np.uint64(0), (prompt * 30_000).astype(np.uint64) + spread(20, 0.3))
    decode = np.where(hit, np.uint64(0), output.astype(np.uint64) * spread(12, 0.2))
    egress, unattributed = spread(0.2, 0.3), spread(0.05, 0.4)
    stages = dict.fromkeys(STAGES, np.zeros(n, np.uint64)) | {
        "gateway": gateway, "tokenizer": tokenizer, "cache": cache, "queue": queue, "model": prefill + decode, "egress": egress,
    }  # fmt: skip
    e2e = sum(stages.values(), unattributed)
    ttft = e2e - decode - egress
    cost = np.round(prompt * 2e-7 + output * 8e-7, 7)

    # Spans of a request lie side by side: row r, span s is at r * 5 + s.
    total = n * SPANS_PER_REQUEST
    starts = np.stack([entry, entry + gateway, entry + gateway + cache, entry + gateway + cache + tokenizer,
                       entry + gateway + cache + tokenizer + queue], axis=1)  # fmt: skip
    durations = np.stack([e2e, cache, tokenizer, queue, stages["model"]], axis=1)
    parents = np.repeat(ids[:, :1], SPANS_PER_REQUEST, axis=1)
    parents[:, 0] = np.void(bytes(8))
    names = np.tile(np.array(["", "cache.lookup", "tokenizer.encode", "admission.wait", "model.infer"], object), (n, 1))
    names[:, 0] = np.char.add("chat ", MODELS[model])

    def number(values: np.ndarray) -> np.ndarray:
        return np.char.add("\x01", values.astype(str))

    def constant(value: str) -> np.ndarray:
        return np.full(n, value, object)

    root = {
        "weir.request": constant("\x01true"), "gen_ai.operation.name": constant("chat"), "gen_ai.provider.name": constant("triton"),
        "gen_ai.request.model": MODELS[model], "gen_ai.response.model": MODELS[model], "gen_ai.request.stream": constant("\x01true"),
        "gen_ai.usage.input_tokens": number(prompt), "gen_ai.usage.output_tokens": number(output),
        "gen_ai.response.finish_reasons": constant('\x01["stop"]'),
        "gen_ai.response.time_to_first_chunk": number(np.round(ttft / 1e9, 9)),
        "http.response.status_code": number(HTTP[status]), "http.request.method": constant("POST"),
        "url.path": constant("/v1/chat/completions"), "server.address": constant("gateway-0"),
        "weir.model": MODELS[model], "weir.variant": np.char.add(MODELS[model], "-fp16"), "weir.pool": np.char.add(MODELS[model], "-eu"),
        "weir.replica": replica, "weir.region": region, "weir.tier": tier, "weir.tenant": tenant, "weir.status": STATUSES[status],
        "weir.cache.outcome": outcome, "weir.cost_usd": number(cost), "weir.policy_version": constant("\x0142"),
        "weir.ttft_ns": number(ttft),
    }  # fmt: skip
    children = [
        {"weir.stage": constant("cache"), "weir.cache.outcome": outcome, "db.system.name": constant("redis"),
         "db.operation.name": constant("GET")},
        {"weir.stage": constant("tokenizer"), "gen_ai.usage.input_tokens": number(prompt)},
        {"weir.stage": constant("queue"), "weir.tier": tier},
        {"weir.stage": constant("model"), "weir.replica": replica, "weir.pool": np.char.add(MODELS[model], "-eu"),
         "rpc.system": constant("grpc"),
         "rpc.service": constant("inference.GRPCInferenceService"), "rpc.method": constant("ModelStreamInfer")},
    ]  # fmt: skip
    per_request = [root, *children]
    keys = [key for span in per_request for key in span]
    values = np.stack([column.astype(object) for span in per_request for column in span.values()], axis=1)
    sizes = np.tile([len(span) for span in per_request], n)
    attributes = pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)),
        pa.array(keys * n, pa.string()),
        pa.array(values.ravel(), pa.string()),
    )
    has_event = np.tile([False, False, False, False, True], n)
    event_offsets = pa.array(np.concatenate([[0], np.cumsum(has_event)]).astype(np.int32))
    no_attributes = pa.MapArray.from_arrays(
        pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.string()), pa.array([], pa.string())
    )

    spans = pa.table(
        {
            "trace_id": pa.array(np.repeat(np.frombuffer(trace, "V16"), SPANS_PER_REQUEST).tolist(), pa.binary(16)),
            "span_id": pa.array(ids.ravel().tolist(), pa.binary(8)),
            "parent_id": pa.array(parents.ravel().tolist(), pa.binary(8)),
            "start_ns": pa.array(starts.ravel(), pa.uint64()),
            "duration_ns": pa.array(durations.ravel(), pa.uint64()),
            "kind": pa.array(np.tile(np.array([2, 3, 1, 1, 3], np.uint8), n)),
            "status_code": pa.array(np.where(np.repeat(status == 1, SPANS_PER_REQUEST), 2, 0).astype(np.uint8)),
            "name": pa.array(names.ravel(), pa.string()),
            "service": pa.array(np.full(total, "weir-gateway", object), pa.string()),
            "scope": pa.array(np.full(total, "weir.gateway", object), pa.string()),
            "attributes": attributes,
            "event_after": pa.ListArray.from_arrays(event_offsets, pa.array(prefill.astype(np.int64))),
            "event_name": pa.ListArray.from_arrays(event_offsets, pa.array(["first_token"] * n)),
            "event_attributes": pa.ListArray.from_arrays(event_offsets, no_attributes),
            "status_message": pa.array(np.full(total, "", object), pa.string()),
            "resource": pa.array(
                np.full(total, '{"service.name":"weir-gateway"}', object), pa.string()
            ).dictionary_encode(),
            "links": pa.array(np.full(total, "", object), pa.string()),
        },
        schema=SPAN_SCHEMA,
    )
    text = {
        "ttft_definition": constant("gateway"), "status": STATUSES[status],
        "error_type": np.where(status == 1, "backend_error", ""), "error_stage": np.where(status == 1, "model", ""),
        "operation": constant("chat"), "service": constant("weir-gateway"), "model": MODELS[model],
        "variant": np.char.add(MODELS[model], "-fp16"), "pool": np.char.add(MODELS[model], "-eu"), "replica": replica, "region": region,
        "caller_region": region, "tier": tier, "tenant": tenant, "cache_outcome": outcome, "adapter": constant("weir"),
        "prompt_bucket": _BUCKETS[np.searchsorted(PROMPT_BUCKET_EDGES, prompt, side="right")],
    }  # fmt: skip
    path = pa.ListArray.from_arrays(
        pa.array(np.arange(0, total + 1, SPANS_PER_REQUEST, np.int32)), pa.array(ids.ravel().tolist(), pa.binary(8))
    )
    labels, others = _tokens([pair for span in (root, *children) for pair in span.items()])
    requests = pa.table(
        {
            "trace_id": pa.array(np.frombuffer(trace, "V16").tolist(), pa.binary(16)),
            "request_id": pa.array(ids[:, 0].tolist(), pa.binary(8)),
            "version": pa.array(np.full(n, entry[-1])),
            "entry_start_ns": pa.array(entry),
            "start_ns": pa.array(entry),
            "e2e_ns": pa.array(e2e),
            **{f"stage_{stage}": pa.array(stages[stage]) for stage in STAGES},
            "unattributed_ns": pa.array(unattributed),
            "prefill_ns": pa.array(prefill),
            "decode_ns": pa.array(decode),
            "ttft_ns": pa.array(ttft),
            "http_status": pa.array(HTTP[status]),
            "prompt_tokens": pa.array(prompt),
            "cached_tokens": pa.nulls(n, pa.uint32()),
            "output_tokens": pa.array(output),
            "stream": pa.array(np.ones(n, bool)),
            "cold_start": pa.array(source.random(n) < 0.001),
            "cost_usd": pa.array(cost),
            "policy_version": pa.array(np.full(n, 42, np.uint64)),
            "span_count": pa.array(np.full(n, SPANS_PER_REQUEST, np.uint32)),
            "unmeasured": pa.array(np.ones(n, bool)),
            "repeated": pa.array(np.zeros(n, bool)),
            "can_wait": pa.array(np.zeros(n, bool)),
            "idempotency_key": pa.array(np.zeros(n, np.uint32)),
            "prompt_bytes": pa.nulls(n, pa.uint32()),
            "answer_bytes": pa.nulls(n, pa.uint32()),
            "critical_path": path,
            **{
                f"attempt_{name}": pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32)), pa.array(column, ATTEMPT[name]))
                for name, column in {
                    "pool": np.char.add(MODELS[model], "-eu"), "replica": replica,
                    "outcome": np.array(["ok", "error", "ok", "cancelled"])[status],
                    "error_type": np.where(status == 1, "unavailable", ""), "retried": np.zeros(n, bool),
                    "ns": stages["model"], "model_ns": stages["model"],
                }.items()
            },
            **label_columns(labels),
            **dict.fromkeys(("policy_rule", "degraded", "prompt_hash", "answer_hash", "guard"), pa.array([""] * n)),
            "attributes": others,
            **{name: pa.array(column, pa.string()) for name, column in text.items()},
        }
    ).select(REQUEST_SCHEMA.names).cast(REQUEST_SCHEMA)  # fmt: skip
    amended = requests.slice(0, n // 50)
    again = amended.set_column(2, "version", pa.array(amended["version"].to_numpy() + 1))
    return Batch(spans, pa.concat_tables([requests, again]))


def _tokens(attributes: list[tuple[str, np.ndarray]]) -> tuple[pa.ListArray, pa.ListArray]:
    """What `ledger.attribute_index` makes of these, a row for each request: labels, and others."""
    columns, are_labels = [], []
    for key, values in attributes:
        coded = pa.array(values.astype(object), pa.string()).dictionary_encode()
        made = [index_of([_bare(key, attribute_value(text))]) for text in coded.dictionary.to_pylist()]
        if any(labels or others for labels, others in made):
            which = coded.indices.to_numpy()
            columns.append(np.array([(*labels, *others)[0] for labels, others in made], np.uint64)[which])
            are_labels.append(np.array([bool(labels) for labels, _ in made])[which])
    whole, label = np.stack(columns, axis=1), np.stack(are_labels, axis=1)
    order = np.argsort(whole, axis=1)
    whole, label = np.take_along_axis(whole, order, 1), np.take_along_axis(label, order, 1)
    first = np.ones(whole.shape, bool)
    first[:, 1:] = whole[:, 1:] != whole[:, :-1]  # an attribute that two spans have counts once
    return _chosen(whole, label & first), _chosen(whole, ~label & first)


def _chosen(values: np.ndarray, mask: np.ndarray) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[mask]))


def _bare(key: str, value: AttrValue) -> Span:
    return Span(b"", b"", b"", "", 0, 0, 0, 0, "", "", {key: value})


def load(store: Store, requests: int, *, from_ns: int, to_ns: int, seed: int = 1, spans: bool = True) -> None:
    """Write `requests` synthetic requests, and their spans unless told not to."""
    for batch in synthetic(requests, from_ns=from_ns, to_ns=to_ns, seed=seed):
        if spans:
            store.writer.insert_span_columns(batch.spans)
        store.writer.insert_request_columns(batch.requests)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--no-spans", action="store_true")
    arguments = parser.parse_args()
    migrate(arguments.dsn)
    now = time.time_ns()
    began = time.monotonic()
    load(
        Store(arguments.dsn),
        arguments.requests,
        from_ns=now - int(arguments.hours * 3600e9),
        to_ns=now,
        spans=not arguments.no_spans,
    )
    print(f"{arguments.requests * SPANS_PER_REQUEST / (time.monotonic() - began):.0f} spans/s, made and inserted")


if __name__ == "__main__":
    main()
