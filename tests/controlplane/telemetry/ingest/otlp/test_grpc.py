"""OTLP over gRPC against the running process."""

import gzip
from collections.abc import Iterator

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.telemetry.otlp_grpc import EXPORT, connected, refusal
from tests.support.telemetry.otlp_payloads import request
from tests.support.telemetry.process import Running
from tests.support.wait import eventually


@pytest.fixture
def channel(telemetry: Running) -> Iterator[grpc.Channel]:
    with connected(telemetry) as opened:
        yield opened


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_are_taken_and_stored(telemetry: Running, channel: grpc.Channel, compression: grpc.Compression) -> None:
    made = request(3)
    answer = TraceServiceStub(channel).Export(made, compression=compression)
    assert not answer.HasField("partial_success")
    trace_id = made.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    with telemetry.store() as store:
        eventually(lambda: len(store.requests.trace(trace_id)) == 3, "the spans are in the store")


def test_metrics_that_are_not_stored_are_told_so(channel: grpc.Channel) -> None:
    metrics = ExportMetricsServiceRequest()
    metrics.resource_metrics.add().scope_metrics.add().metrics.add().sum.data_points.add(as_int=1)
    assert MetricsServiceStub(channel).Export(metrics).partial_success.rejected_data_points == 1


@pytest.mark.parametrize(
    "message", [b"\x0a\xff\xff", b"hello", gzip.compress(b"hello", mtime=0), gzip.compress(b"x" * 9999, mtime=0)[:-9]]
)
def test_a_message_that_cannot_be_read_is_an_invalid_argument(channel: grpc.Channel, message: bytes) -> None:
    error = refusal(channel.unary_unary(EXPORT), message)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "RetryInfo" not in repr(details(error))


def test_a_message_over_the_limit_is_refused_for_good_and_another_method_is_not_there(channel: grpc.Channel) -> None:
    assert refusal(channel.unary_unary(EXPORT), bytes(65 * 2**20)).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal(channel.unary_unary("/x.Y/Z"), b"").code() == grpc.StatusCode.UNIMPLEMENTED


def test_back_pressure_is_unavailable_and_says_when_to_come_again(small: Running) -> None:
    body = request(2_000).SerializeToString()
    while small.post(body, Authorization="Bearer secret")[0] == 200:
        pass
    with connected(small) as channel:
        error = refusal(channel.unary_unary(EXPORT), body, metadata=[("authorization", "Bearer secret")])
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    retry = RetryInfo()
    assert details(error).details[0].Unpack(retry) and retry.retry_delay.seconds > 0


def test_a_wrong_token_is_unauthenticated(guarded: Running) -> None:
    with connected(guarded) as channel:
        call = channel.unary_unary(EXPORT)
        for metadata in ([], [("authorization", "Bearer wrong")], [("authorization", "secret")]):
            assert refusal(call, b"", metadata=metadata).code() == grpc.StatusCode.UNAUTHENTICATED
        assert call(b"", metadata=[("authorization", "Bearer secret")]) == b""


def details(error: grpc.RpcError) -> Status:
    held = dict(error.trailing_metadata())
    return Status.FromString(held["grpc-status-details-bin"])
