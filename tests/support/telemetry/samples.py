"""Spans and ledger rows for tests: small, valid, and different where a test says so."""

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.spans import Event, Link, Span
from controlplane.telemetry.ledger.row import LedgerRow
from inference.contract.stages import STAGES
from tests.support.soak import sized

NOON_NS = 1_790_000_000_000_000_000
"""Some instant in 2026-09; the tests' databases keep rows for ten years."""
S = 10**9
HOUR = Window(NOON_NS, NOON_NS + 3600 * S)


def row(number: int = 1, **changes: Any) -> LedgerRow:
    """A row that closes: unless given, `e2e_ns` is the sum of `stages` and `unattributed_ns`."""
    stages = dict.fromkeys(STAGES, 0) | {"queue": 1_000_000, "model": 9_000_000} | changes.pop("stages", {})
    unattributed = changes.pop("unattributed_ns", 0)
    entry = changes.pop("entry_start_ns", NOON_NS + number * 1_000_000)
    start = changes.pop("start_ns", entry)
    e2e = sum(stages.values()) + unattributed
    values: dict[str, Any] = {
        "trace_id": f"{number:032x}",
        "request_id": f"{number:016x}",
        "entry_start_ns": entry,
        "start_ns": start,
        "end_ns": start + e2e,
        "e2e_ns": e2e,
        "stages": stages,
        "unattributed_ns": unattributed,
        "prefill_ns": 2_000_000,
        "decode_ns": 7_000_000,
        "ttft_ns": 3_000_000,
        "ttft_definition": "gateway",
        "status": "ok",
        "http_status": 200,
        "error_type": "",
        "error_stage": "",
        "operation": "chat",
        "service": "weir-gateway",
        "model": "small",
        "variant": "small-fp16",
        "pool": "small-eu",
        "replica": "127.0.0.1:8001",
        "region": "eu",
        "tier": "standard",
        "tenant": "acme",
        "prompt_tokens": 100,
        "output_tokens": 20,
        "cache_outcome": "miss",
        "stream": True,
        "cold_start": False,
        "cost_usd": 0.0012,
        "policy_version": 7,
        "span_count": 6,
        "adapter": "weir",
        "caller_region": "eu",
        "critical_path": (f"{number:016x}", f"{number + 1:016x}"),
    }
    return LedgerRow(**values | changes)


def answered(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Those that latency is of."""
    return [row for row in rows if row.status == "ok"]


def span(number: int, **changes: Any) -> Span:
    """A span of trace 1, a millisecond long."""
    start = NOON_NS + number * 1_000_000
    values: dict[str, Any] = {
        "trace_id": bytes(15) + b"\x01",
        "span_id": number.to_bytes(8, "big"),
        "parent_id": b"",
        "name": "chat small",
        "kind": 2,
        "start_ns": start,
        "end_ns": start + 1_000_000,
        "status_code": 0,
        "service": "weir-gateway",
        "scope": "weir.gateway",
        "attributes": {"weir.request": True, "weir.tier": "standard", "gen_ai.usage.input_tokens": 100},
    }
    return Span(**values | changes)


def random_rows(count: int, seed: int, **changes: Any) -> list[LedgerRow]:
    """Rows with random stages, spread over an hour."""
    source = random.Random(seed)
    return [
        row(
            number,
            entry_start_ns=NOON_NS + source.randrange(3600 * S),
            stages={stage: source.randrange(50_000_000) for stage in STAGES},
            unattributed_ns=source.randrange(1_000_000),
            ttft_ns=source.choice([None, source.randrange(30_000_000)]),
            ttft_definition=source.choice(["gateway", "client"]),
            status=source.choice(["ok", "ok", "ok", "error", "rejected", "cancelled"]),
            model=source.choice(["small", "large"]),
            prompt_tokens=source.choice([None, 10, 600, 200_000]),
            unmeasured=source.random() < 0.2,
            caller_region=source.choice(["eu", "us", ""]),
            **changes,
        )
        for number in range(1, count + 1)
    ]


FEW = settings(
    max_examples=sized(10, soak=100),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example is a round trip to the store: no shrinking
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_scalars = st.one_of(
    TEXT,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    TEXT.map(lambda text: "\x01" + text),
)
ATTRIBUTES = st.dictionaries(
    TEXT, st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5), max_size=5
)


_links = st.builds(Link, st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), ATTRIBUTES)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    start = NOON_NS + draw(st.integers(0, 10**12))
    events = draw(st.lists(st.tuples(st.integers(-(10**9), 10**12), TEXT, ATTRIBUTES), max_size=3))
    return Span(
        trace_id=draw(st.binary(min_size=16, max_size=16)),
        span_id=draw(st.binary(min_size=8, max_size=8).filter(any)),
        parent_id=draw(st.one_of(st.just(b""), st.binary(min_size=8, max_size=8).filter(any))),
        name=draw(TEXT),
        kind=draw(st.integers(0, 5)),
        start_ns=start,
        end_ns=start + draw(st.integers(0, 10**15)),
        status_code=draw(st.integers(0, 2)),
        service=draw(TEXT),
        scope=draw(TEXT),
        attributes=draw(ATTRIBUTES),
        events=tuple(Event(start + after, name, attributes) for after, name, attributes in events),
        status_message=draw(TEXT),
        resource=draw(ATTRIBUTES),
        links=tuple(draw(st.lists(_links, max_size=2))),
    )
