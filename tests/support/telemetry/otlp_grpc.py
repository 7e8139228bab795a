"""A gRPC client of the receiver."""

from typing import Any

import grpc
import pytest

from tests.support.telemetry.process import Running

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def connected(telemetry: Running) -> grpc.Channel:
    return grpc.insecure_channel(f"127.0.0.1:{telemetry.grpc_port}", options=[("grpc.max_send_message_length", -1)])


def refusal(call: Any, *arguments: Any, **options: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, timeout=60, **options)
    return caught.value
