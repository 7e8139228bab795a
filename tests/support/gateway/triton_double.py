"""A server that speaks Triton's gRPC protocol and fails on demand: a limit of calls, slow probes, errors.

It is for faults that a real Triton does not show on demand. Everything else is tested against a real one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]


class TritonDouble(grpc.GenericRpcHandler):
    """Every model is ready and answers two tokens. `gate` holds the second back while it is cleared, and the first too
    where `mute` is set.
    """

    def __init__(self) -> None:
        self.address = ""
        self.gate = asyncio.Event()
        self.gate.set()
        self.mute = False
        self.answer_s = 0.0
        self.error: grpc.StatusCode | None = None  # of every inference, at once
        self.silent: set[str] = set()  # models whose probes are not answered
        self.inferences: Counter[str] = Counter()  # by model
        self.probed: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.priorities: list[int] = []  # in the order in which calls came
        self._server: Any = None

    async def start(self, max_calls: int = 0) -> "TritonDouble":
        options = [("grpc.max_concurrent_streams", max_calls)] if max_calls else []
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def stop(self) -> None:
        await self._server.stop(None)

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]
        if method == "ModelReady":
            return grpc.unary_unary_rpc_method_handler(
                self._ready, pb.ModelReadyRequest.FromString, pb.ModelReadyResponse.SerializeToString
            )
        return grpc.stream_stream_rpc_method_handler(
            self._infer, pb.ModelInferRequest.FromString, pb.ModelStreamInferResponse.SerializeToString
        )

    async def _ready(self, request: Any, context: Any) -> Any:
        self.probed[request.name] += 1
        if request.name in self.silent:
            await asyncio.Event().wait()
        return pb.ModelReadyResponse(ready=True)

    async def _infer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async for request in requests:
                self.inferences[request.model_name] += 1
                self.priorities.append(request.parameters["priority"].uint64_param)
                if self.error is not None:
                    await context.abort(self.error, "on demand")
                if self.mute:
                    await self.gate.wait()
                yield _response("one")
                await self.gate.wait()
                if self.answer_s:
                    await asyncio.sleep(self.answer_s)
                yield _response("two", "stop")
        finally:
            self.at_once -= 1


def _response(text: str, finish_reason: str = "") -> Any:
    response = pb.ModelInferResponse()
    for name, value in (("text", text), ("finish_reason", finish_reason)):
        response.outputs.add(name=name, datatype="BYTES", shape=[1])
        response.raw_output_contents.append(len(value).to_bytes(4, "little") + value.encode())
    return pb.ModelStreamInferResponse(infer_response=response)


StartDouble = Callable[..., Awaitable[TritonDouble]]
