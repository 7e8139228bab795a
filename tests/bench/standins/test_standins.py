"""The bench measures what it says: its stand-in is a Triton to the official client, its traces are whole and never repeat."""

import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tritonclient.grpc import InferInput  # type: ignore[import-untyped]
from tritonclient.grpc.aio import InferenceServerClient  # type: ignore[import-untyped]

from controlplane.telemetry.ingest import native
from tests.bench import __main__ as bench
from tests.bench import cancel
from tests.bench.figures import Figure
from tests.bench.loads.grpc_wire import GrpcInfer
from tests.bench.loads.http_load import closed_loop
from tests.bench.loads.traces import template
from tests.bench.processes import free_port, start


@pytest.fixture
def triton_port(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    with ExitStack() as stack:
        start(stack, "standin", [sys.executable, "-m", "tests.bench.standins.triton", str(port)], tmp_path, port=port)
        yield port


async def test_the_official_client_streams_the_tokens_it_asked_for(triton_port: int) -> None:
    tokens = InferInput("max_tokens", [1, 1], "INT32")
    tokens.set_data_from_numpy(np.array([[3]], np.int32))

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "chat_small", "inputs": [tokens], "request_id": "one"}

    async with InferenceServerClient(f"127.0.0.1:{triton_port}") as client:
        assert await client.is_server_ready()
        answers = [result async for result, error in client.stream_infer(requests()) if error is None]
    assert [answer.as_numpy("finish_reason")[0, 0] for answer in answers] == [b"", b"", b"length"]
    assert {answer.get_response().id for answer in answers} == {"one"}
    assert [answer.get_response().parameters["triton_final_response"].bool_param for answer in answers] == [
        False,
        False,
        True,
    ]


async def test_an_answer_larger_than_the_clients_window_arrives_whole(triton_port: int) -> None:
    tokens = InferInput("max_tokens", [1, 1], "INT32")
    tokens.set_data_from_numpy(np.array([[4000]], np.int32))

    async def requests() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "chat_small", "inputs": [tokens]}

    async with InferenceServerClient(f"127.0.0.1:{triton_port}") as client:
        assert len([result async for result, _ in client.stream_infer(requests())]) == 4000


def test_the_load_generator_counts_only_whole_answers(triton_port: int) -> None:
    load = closed_loop(triton_port, GrpcInfer("chat_small", 8), connections=4, seconds=0.1)
    assert len(load.latencies_ns) >= 4


def test_a_rendered_request_holds_whole_traces_and_is_never_repeated() -> None:
    rng = np.random.default_rng(1)
    made = template(rng, traces=8)
    first, second = (_spans(made.render(rng, time.time_ns())[0]) for _ in range(2))
    assert len(first) == made.spans
    assert not {span.span_id for span in first} & {span.span_id for span in second}
    assert not {span.trace_id for span in first} & {span.trace_id for span in second}
    by_id = {span.span_id: span for span in first}
    assert sum(not span.parent_span_id for span in first) == 8
    for span in first:
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.trace_id == span.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano


def _spans(raw: bytes) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(raw)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.parametrize(("built", "said"), [(True, "ledger compiled: yes\n"), (False, "ledger compiled: no, ")])
def test_it_says_whether_the_ledger_is_compiled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    built: bool,
    said: str,
) -> None:
    def run() -> Iterator[Figure]:
        yield Figure("x", 1, "s")

    monkeypatch.setattr(sys, "argv", ["bench", "--only", "cancel"])
    monkeypatch.setattr(cancel, "run", run)
    monkeypatch.setattr(native, "folder", lambda: tmp_path if built else tmp_path / "none")
    with pytest.raises(SystemExit) as ended:
        bench.main()
    output = capsys.readouterr()
    assert ended.value.code == 0
    assert said in output.err
    assert output.out == '{"name": "x", "value": 1.0, "unit": "s", "against": ""}\n'
