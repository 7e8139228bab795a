"""A server that speaks Triton's gRPC protocol and fails on demand: a limit of calls, slow probes, errors.

It is for faults that a real Triton does not show on demand. Everything else is tested against a real one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from tests.support.certificates import Certificate
from tests.support.servers.weir_model import DESCRIPTIONS


class TritonDouble(grpc.GenericRpcHandler):
    """Every model is ready and answers two tokens. `gate` holds the second back while it is cleared, and the first too
    where `mute` is set.
    """

    def __init__(self) -> None:
        self.address = "127.0.0.1:0"  # any port; that of before where it starts again
        self.gate = asyncio.Event()
        self.gate.set()
        self.mute = False
        self.answer_s = 0.0
        self.error: grpc.StatusCode | None = None  # of every inference, at once
        self.silent: set[str] = set()  # models whose probes are not answered
        self.inferences: Counter[str] = Counter()  # by model
        self.prompts: list[str] = []
        self.probed: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.priorities: list[int] = []  # in the order in which calls came
        self.authorizations: Counter[str] = Counter()  # that calls carried, probes and descriptions included
        self._server: Any = None

    async def start(self, max_calls: int = 0, proof: Certificate | None = None) -> "TritonDouble":
        """With `proof` it speaks TLS."""
        options = [("grpc.max_concurrent_streams", max_calls)] if max_calls else []
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))
        if proof is None:
            port = self._server.add_insecure_port(self.address)
        else:
            credentials = grpc.ssl_server_credentials([(proof.key, proof.chain)])
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def stop(self) -> None:
        await self._server.stop(None)

    def service(self, details: Any) -> Any:
        method = details.method.rpartition("/")[2]
        self.authorizations[dict(details.invocation_metadata).get("authorization", "")] += 1
        if method == "ModelReady":
            return grpc.unary_unary_rpc_method_handler(
                self._ready, pb.ModelReadyRequest.FromString, pb.ModelReadyResponse.SerializeToString
            )
        if method in DESCRIPTIONS:
            return grpc.unary_unary_rpc_method_handler(self._describe(DESCRIPTIONS[method]))
        return grpc.stream_stream_rpc_method_handler(
            self._infer, pb.ModelInferRequest.FromString, pb.ModelStreamInferResponse.SerializeToString
        )

    async def _ready(self, request: Any, context: Any) -> Any:
        self.probed[request.name] += 1
        if request.name in self.silent:
            await asyncio.Event().wait()
        return pb.ModelReadyResponse(ready=True)

    @staticmethod
    def _describe(description: bytes) -> Any:
        async def answer(_: bytes, context: Any) -> bytes:
            return description

        return answer

    async def _infer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        working = True
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async for request in requests:
                self.inferences[request.model_name] += 1
                self.prompts += (
                    content[4:].decode()
                    for given, content in zip(request.inputs, request.raw_input_contents, strict=True)
                    if given.name == "prompt"
                )
                self.priorities.append(request.parameters["priority"].uint64_param)
                if self.error is not None:
                    await context.abort(self.error, "on demand")
                if self.mute:
                    await self.gate.wait()
                yield _response("one")
                await self.gate.wait()
                if self.answer_s:
                    await asyncio.sleep(self.answer_s)
                working = False  # whoever reads the end may send the next at once
                self.at_once -= 1
                yield _response("two", "stop")
        finally:
            self.at_once -= working


def _response(text: str, finish_reason: str = "") -> Any:
    response = pb.ModelInferResponse()
    for name, value in (("text", text), ("finish_reason", finish_reason)):
        response.outputs.add(name=name, datatype="BYTES", shape=[1])
        response.raw_output_contents.append(len(value).to_bytes(4, "little") + value.encode())
    return pb.ModelStreamInferResponse(infer_response=response)


StartDouble = Callable[..., Awaitable[TritonDouble]]
