"""Calls models on Triton over gRPC: `ModelStreamInfer` with one request per call, so that each can be cancelled alone.

This is the only importer of tritonclient, and uses its messages. The calls go over `inference.wires.grpc`, because
grpc.aio takes several times as long (docs/gateway.md).
"""

import codecs
import struct
from typing import NamedTuple

from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.core.normalise import Question
from inference.wires.grpc import Call, CallFailedError, Channel, Status
from inference.wires.grpc.channel import metadata

_STREAM_INFER = b"/inference.GRPCInferenceService/ModelStreamInfer"
_MODEL_READY = b"/inference.GRPCInferenceService/ModelReady"
# Triton then ends a failed call with a status. Else it would send the error's text in a stream that ends with OK.
_GRPC_ERRORS = metadata((b"triton_grpc_error", b"true"))
_length = struct.Struct("<I")
_i32, _f32, _i64 = struct.Struct("<i"), struct.Struct("<f"), struct.Struct("<q")
_utf8 = codecs.getincrementaldecoder("utf-8")


class Chunk(NamedTuple):
    """One response of the model, which is one token. The last has a `finish_reason`, and maybe no text."""

    text: str
    finish_reason: str


class Inference:
    """A call under way."""

    __slots__ = ("_call", "_decode")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._decode = _utf8("replace").decode  # a token may end in the middle of a character

    @property
    def waiting(self) -> bool:
        """Whether it has not been sent, because the server is at its limit of calls."""
        return self._call.waiting

    async def sent(self) -> None:
        """Wait until it has been sent. Raises UnreachableError."""
        await self._call.sent()

    async def next(self) -> Chunk | None:
        """The next token; None if the model ended without a finish reason. Raises GrpcError."""
        while (raw := await self._call.read()) is not None:
            message = pb.ModelStreamInferResponse.FromString(raw)
            if message.error_message:
                raise CallFailedError(Status.INTERNAL, message.error_message)
            response = message.infer_response
            text = finish_reason = b""
            for output, content in zip(response.outputs, response.raw_output_contents, strict=False):
                if output.name == "text":
                    text = content[4:]
                elif output.name == "finish_reason":
                    finish_reason = content[4:]
            if text or finish_reason:
                return Chunk(self._decode(text, bool(finish_reason)), finish_reason.decode("utf-8", "replace"))
        return None

    def cancel(self) -> None:
        """Stop it in Triton now. Harmless once it has ended."""
        self._call.cancel()


class TritonModel:
    """One model on one Triton."""

    def __init__(self, channel: Channel, model_name: str, model_version: str) -> None:
        self.channel = channel
        self._ready = pb.ModelReadyRequest(name=model_name, version=model_version).SerializeToString()
        # The part that all requests share.
        template = pb.ModelInferRequest(model_name=model_name, model_version=model_version)
        for name, datatype in (
            ("prompt", "BYTES"),
            ("prompt_tokens", "INT32"),
            ("max_tokens", "INT32"),
            ("temperature", "FP32"),
            ("seed", "INT64"),
        ):
            template.inputs.add(name=name, datatype=datatype, shape=[1, 1])  # a batch of one
        for name in ("text", "finish_reason"):
            template.outputs.add(name=name)
        self._template = template.SerializeToString()

    async def infer(self, question: Question, prompt_tokens: int, priority: int, traceparent: bytes) -> Inference:
        """Start generating; `priority` 1 is served first.

        The traceparent is sent as the request's id too, because Triton 2.51 sometimes loses the header (docs/models.md).

        Raises GrpcError; UnreachableError if the server never worked on the request.
        """
        prompt = question.prompt.encode("utf-8", "replace")
        rest = pb.ModelInferRequest(
            id=traceparent.decode(),
            raw_input_contents=(
                _length.pack(len(prompt)) + prompt,
                _i32.pack(prompt_tokens),
                _i32.pack(question.max_tokens),
                _f32.pack(question.temperature),
                _i64.pack(question.seed),
            ),
        )
        rest.parameters["priority"].uint64_param = priority
        headers = metadata((b"traceparent", traceparent)) + _GRPC_ERRORS
        # Protobuf messages merge by being written one after the other.
        body = self._template + rest.SerializeToString()
        return Inference(await self.channel.call(_STREAM_INFER, body, headers, priority))

    async def ready(self, timeout_s: float) -> bool:
        """Whether the model is loaded and answers. Raises GrpcError."""
        answer = await self.channel.unary(_MODEL_READY, self._ready, timeout_s, priority=0)
        return bool(pb.ModelReadyResponse.FromString(answer).ready)
