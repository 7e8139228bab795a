"""One ModelStreamInfer call as raw frames, so that a direct call to the stand-in costs no gRPC client."""

import struct
from dataclasses import dataclass, field
from itertools import count

from tritonclient.grpc import service_pb2 as kserve  # type: ignore[import-untyped]

from tests.bench.standins.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PREFACE,
    SETTINGS,
    TRAILERS,
    WINDOW_UPDATE,
    frame,
    header,
    message,
)

_HEADERS = b"".join(
    header(name, value)
    for name, value in (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/inference.GRPCInferenceService/ModelStreamInfer"),
        (":authority", "127.0.0.1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    )
)
_WIDE = 2**30


@dataclass
class GrpcInfer:
    """A streaming inference of `tokens` responses; whole when the trailers of its stream have come."""

    model: str
    tokens: int
    _body: bytes = b""
    _streams: "count[int]" = field(default_factory=lambda: count(1, 2))

    def __post_init__(self) -> None:
        request = kserve.ModelInferRequest(model_name=self.model, id="0123456789abcdef")
        prompt = b"x" * 200
        for name, datatype, value in (
            ("prompt", "BYTES", len(prompt).to_bytes(4, "little") + prompt),
            ("prompt_tokens", "INT32", (50).to_bytes(4, "little")),
            ("max_tokens", "INT32", self.tokens.to_bytes(4, "little")),
        ):
            request.inputs.add(name=name, datatype=datatype, shape=[1, 1])
            request.raw_input_contents.append(value)
        self._body = message(request.SerializeToString())

    def hello(self) -> bytes:
        settings = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, _WIDE))
        return PREFACE + settings + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", _WIDE))

    def request(self, serial: int) -> bytes:
        """Stream ids grow over all connections together, which HTTP/2 allows: each connection sees its own in order."""
        stream = next(self._streams)
        return frame(HEADERS, END_HEADERS, stream, _HEADERS) + frame(DATA, END_STREAM, stream, self._body)

    def complete(self, received: bytes) -> bool:
        return received.endswith(TRAILERS)
