"""Random ledger rows: every status, missing values, and few enough different ones that thresholds fall on them."""

import random

from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from inference.contract.stages import STAGES

MS = 1_000_000
MODELS, TIERS, REGIONS = ("chat-large", "chat-small", "it's 'odd'"), ("premium", "batch", ""), ("eu", "us")


def rows(source: random.Random, count: int, from_ns: int, to_ns: int) -> list[LedgerRow]:
    return [_row(source, source.randrange(from_ns, to_ns)) for _ in range(count)]


def stored(store: Store, seed: int, count: int, from_s: int, to_s: int) -> list[LedgerRow]:
    """`rows` of that time, which the store then has."""
    made = rows(random.Random(seed), count, from_s * 10**9, to_s * 10**9)
    store.writer.insert_requests(made, 1)
    return made


def _row(source: random.Random, at_ns: int) -> LedgerRow:
    e2e_ns = source.choice((0, 1, 250 * MS, 250 * MS + 1, source.randrange(10**9), 2**62 + source.randrange(9)))
    status = source.choices(("ok", "error", "rejected", "cancelled"), (6, 1, 2, 2))[0]
    return LedgerRow(
        trace_id=source.randbytes(16).hex(),
        request_id=source.randbytes(8).hex(),
        entry_start_ns=at_ns,
        start_ns=at_ns,
        end_ns=at_ns + e2e_ns,
        e2e_ns=e2e_ns,
        stages={stage: source.choice((0, 5 * MS, source.randrange(10**9))) for stage in STAGES},
        unattributed_ns=0,
        prefill_ns=0,
        decode_ns=source.choice((0, 100 * MS, source.randrange(10**10))),
        ttft_ns=source.choice((None, 0, 100 * MS, source.randrange(10**9))),
        ttft_definition=source.choice(("gateway", "vllm-arrival", "")),
        status=status,
        http_status=None,
        error_type=source.choice(("", "rate_limit_exceeded", "queue_full")) if status != "ok" else "",
        error_stage="",
        operation="chat",
        service="weir-gateway",
        model=source.choice(MODELS),
        variant="",
        pool="",
        replica="",
        region=source.choice(REGIONS),
        tier=source.choice(TIERS),
        tenant="",
        prompt_tokens=source.choice((None, 0, source.randrange(10_000))),
        output_tokens=source.choice((None, 0, 1, 2, 11, source.randrange(1_000))),
        cache_outcome="",
        stream=True,
        cold_start=False,
        cost_usd=source.choice((None, 0.0, 0.1, source.random())),
        policy_version=None,
        span_count=1,
        unmeasured=at_ns % 5 == 0,
        adapter="weir",
    )
