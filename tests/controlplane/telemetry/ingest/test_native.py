"""The compiled ledger gives the same rows as the interpreted one."""

import json
import random
import subprocess
import sys

import pytest

from controlplane.telemetry.core.spans import Event, Span
from controlplane.telemetry.ingest import native
from controlplane.telemetry.ledger import close
from tests.support.soak import sized

TRACES = sized(500, soak=5_000)
_COMPILED = """

from controlplane.telemetry.ingest import native
assert native.use()
from tests.controlplane.telemetry.ingest.test_native import TRACES, rows
from controlplane.telemetry.ledger.critical_path import critical_path
assert not hasattr(critical_path, "__code__"), "it is interpreted"
print(rows())
"""

_ATTRIBUTES = (
    {},
    {"weir.stage": "cache"},
    {"weir.stage": "model"},
    {"weir.request": True, "weir.ttft_ns": 40, "weir.status": "ok", "gen_ai.usage.input_tokens": 700},
    {"gen_ai.operation.name": "chat", "gen_ai.response.time_to_first_chunk": 1e-8},
    {"http.request.method": "POST", "url.path": "/v1/chat/completions", "http.response.status_code": 503},
    {"triton.model_name": "m"},
    {"db.system.name": "redis"},
    {"gen_ai.latency.time_to_first_token": 2e-8, "gen_ai.latency.time_in_queue": 1e-8},
    {"weir.request": "true", "weir.cost_usd": 10**30, "http.response.status_code": -1},
)
_NAMES = ("InferRequest", "compute", "llm_request", "chat m", "gateway.receive")


def trace(source: random.Random) -> list[Span]:
    """Spans of any kind and shape: cycles, missing parents, different clocks, ends before starts."""
    ids = [source.randbytes(8) for _ in range(source.randint(1, 14))]
    spans = []
    for span_id in ids:
        start = source.randint(0, 200) + (10**6 if source.random() < 0.1 else 0)
        spans.append(
            Span(
                b"t" * 16,
                span_id,
                source.choice([b"", b"x" * 8, *ids, *ids]),
                source.choice(_NAMES),
                source.randint(0, 5),
                start,
                start + source.randint(-5, 100),
                source.randint(0, 2),
                source.choice(["one", "two"]),
                source.choice(["weir.gateway", "triton-server", "library"]),
                dict(source.choice(_ATTRIBUTES)),
                tuple(
                    Event(source.randint(0, 300), name)
                    for name in ("first_token", "QUEUE_START", "COMPUTE_START", "GRPC_SEND_START")
                    if source.random() < 0.2
                ),
            )
        )
    return spans


def rows() -> str:
    source = random.Random(11)
    return json.dumps([repr(close(trace(source))) for _ in range(TRACES)])


def test_any_trace_closes_alike_compiled_and_interpreted() -> None:
    if not native.folder().is_dir():
        pytest.skip("nothing was built here: python -m controlplane.telemetry.ingest.native, with a C compiler")
    ran = subprocess.run([sys.executable, "-c", _COMPILED], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == json.loads(rows())
