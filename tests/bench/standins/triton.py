"""A stand-in for Triton that answers at once: KServe v2 over gRPC, decoupled as the repository's chat models are.

    python -m tests.bench.standins.triton PORT

Speaks as the repository's chat models do (`docs/models.md`): an inference is answered by `max_tokens` responses of one
token each, the last one final, all in one write: a model that takes no time, so that what is measured is the caller.
Answers ServerLive, ServerReady, ModelReady, ModelInfer and ModelStreamInfer, and what describes the server and its models.
"""

import asyncio
import sys
from functools import lru_cache, partial

import uvloop
from tritonclient.grpc import service_pb2 as kserve  # type: ignore[import-untyped]

from tests.bench.standins.http2 import Answer, GrpcConnection, message
from tests.support.servers.weir_model import DESCRIPTIONS

DEFAULT_TOKENS = 8
TOKEN = b" weir"
_READY = message(kserve.ServerReadyResponse(ready=True).SerializeToString())
_ID = 0x1A  # field 3 of ModelInferResponse
_MAX_TOKENS = 4_096


def token_count(request: kserve.ModelInferRequest) -> int:
    """The request's INT32 input `max_tokens`, bounded."""
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=False):
        if tensor.name == "max_tokens":
            return max(1, min(int.from_bytes(raw, "little"), _MAX_TOKENS))
    return DEFAULT_TOKENS


@lru_cache(maxsize=256)
def _responses(model: str, tokens: int) -> tuple[tuple[bytes, bytes], ...]:
    """What answers one request on `model`, each as what comes before its id and after it: servers write fields in order."""
    return (_response(model, b"", final=False),) * (tokens - 1) + (_response(model, b"length", final=True),)


def _response(model: str, finish_reason: bytes, *, final: bool) -> tuple[bytes, bytes]:
    before = kserve.ModelInferResponse(model_name=model, model_version="1")
    after = kserve.ModelInferResponse()
    after.parameters["triton_final_response"].bool_param = final
    for name, value in (("text", TOKEN), ("finish_reason", finish_reason)):
        after.outputs.add(name=name, datatype="BYTES", shape=[1, 1])
        after.raw_output_contents.append(len(value).to_bytes(4, "little") + value)
    return bytes(before.SerializeToString()), bytes(after.SerializeToString())


def _identified(response: tuple[bytes, bytes], request_id: bytes) -> bytes:
    before, after = response
    return before + bytes((_ID, len(request_id))) + request_id + after if request_id else before + after


@lru_cache(maxsize=4)
def _stream_template(model: str, tokens: int) -> bytes:
    """Every response of one request in one piece, for a request without an id."""
    return b"".join(
        message(
            kserve.ModelStreamInferResponse(
                infer_response=kserve.ModelInferResponse.FromString(_identified(response, b""))
            ).SerializeToString()
        )
        for response in _responses(model, tokens)
    )


def stream_infer(raw: bytes) -> bytes:
    request = kserve.ModelInferRequest.FromString(raw)
    tokens = token_count(request)
    if not request.id:
        return _stream_template(request.model_name, tokens)
    request_id = request.id.encode()
    out = []
    for response in _responses(request.model_name, tokens):
        inner = _identified(response, request_id)
        out.append(message(b"\x12" + _varint(len(inner)) + inner))  # ModelStreamInferResponse.infer_response
    return b"".join(out)


def infer(raw: bytes) -> bytes:
    request = kserve.ModelInferRequest.FromString(raw)
    return message(_identified(_responses(request.model_name, 1)[0], request.id.encode()))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def ready(_: bytes) -> bytes:
    """ServerLive, ServerReady and ModelReady share one encoding: a true boolean in field 1."""
    return _READY


def _answer(body: bytes) -> Answer:
    framed = message(body)
    return lambda _: framed


METHODS: dict[bytes, Answer] = {
    b"/inference.GRPCInferenceService/ModelStreamInfer": stream_infer,
    b"/inference.GRPCInferenceService/ModelInfer": infer,
    b"/inference.GRPCInferenceService/ServerLive": ready,
    b"/inference.GRPCInferenceService/ServerReady": ready,
    b"/inference.GRPCInferenceService/ModelReady": ready,
    **{f"/inference.GRPCInferenceService/{name}".encode(): _answer(body) for name, body in DESCRIPTIONS.items()},
}


def route(header_block: bytes) -> Answer | None:
    return next((answer for path, answer in METHODS.items() if path in header_block), None)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(partial(GrpcConnection, route), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
