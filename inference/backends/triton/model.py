"""Calls a model on Triton: `ModelStreamInfer` with one request per call, so that each can be cancelled alone.

tritonclient describes servers and models (`detect`), and its messages are used. Calls and probes go over
`inference.wires.grpc`, because grpc.aio takes several times as long (docs/gateway.md), and because a probe must test the
connection that the calls use.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise

from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.backends.credentials import CredentialError
from inference.backends.port import CallInfo, Detected, Embeddings, Link, Query, ServerLoad, Stream, Usage
from inference.backends.triton import errors, facts
from inference.backends.triton.answer import Answer
from inference.backends.triton.detect import Server, look
from inference.backends.triton.fan_out import FanOut
from inference.backends.triton.plan import Plan, capabilities
from inference.backends.triton.signatures import SIGNATURES, Signature, of_mapping
from inference.backends.triton.stream import TritonStream
from inference.backends.triton.token_ids import TokenTexts
from inference.backends.triton.values import Request
from inference.contract.snapshot import Pool
from inference.core.backend_errors import BackendError, FailedError
from inference.core.capabilities import Capabilities
from inference.core.question import Prompt, Question
from inference.observability.context import TRACEPARENT_BYTES
from inference.wires.grpc import Channel, GrpcError, Status
from inference.wires.grpc.channel import metadata

_STREAM_INFER = b"/inference.GRPCInferenceService/ModelStreamInfer"
_INFER = b"/inference.GRPCInferenceService/ModelInfer"
_MODEL_READY = b"/inference.GRPCInferenceService/ModelReady"
# Triton then ends a failed call with a status. Else it sends the error's text in a stream that ends with OK.
_GRPC_ERRORS = metadata((b"triton_grpc_error", b"true"))
# Each has as many bytes, so that all but its value is encoded once.
_TRACEPARENT = metadata((b"traceparent", bytes(TRACEPARENT_BYTES)))[:-TRACEPARENT_BYTES]
_LOOK_S = 10.0  # for each answer about the server and its model
_DESCRIBE_S = 60.0  # a model that is loaded anew may have other tensors, and was never away
_TRIAL = Question(operation="text_completion", prompt=("1 2 3 4 5 6 7 8",), max_tokens=16, temperature=0)
_MAX_EMBEDDED_AT_ONCE = 64  # inputs of one request
_FLOAT_BYTES = 4
_TRIAL_TEXTS = 3  # of which each repeats those before it, or does not: fewer say too little


class TritonModel:
    """The model of a pool on one Triton. `headers` gives what every call carries besides, such as a credential; it raises
    CredentialError.
    """

    needs_prompt = True
    passes = False

    def __init__(self, link: Channel, pool: Pool, headers: Callable[[], Mapping[str, str]] = dict) -> None:
        self._channel = link
        self._name, self._version = pool.model_name, pool.model_version
        self._signature = _signature(pool)
        self.needs_ids = self._signature is not None and self._signature.takes_ids
        self._headers = headers
        self._metadata = b""
        self._plan: Plan | None = None  # until the model has been described, and while it is away
        self._described: facts.Model | None = None
        self._described_at_s = 0.0
        self._at_best = capabilities(self._signature or SIGNATURES["vllm"])
        self._ready = pb.ModelReadyRequest(name=self._name, version=self._version).SerializeToString()

    @property
    def capabilities(self) -> Capabilities:
        return self._at_best if self._plan is None else self._plan.capabilities

    @property
    def link(self) -> Link:
        return self._channel

    async def generate(self, query: Query, call: CallInfo) -> Stream:
        """`call.priority` 1 is served first, where the model has priorities."""
        assert isinstance(query, Question)
        plan, question = self._plan, query
        if plan is None:
            plan = await self._describe()
        if self.needs_ids and not call.prompt_ids:
            # A call of the gateway's own has no tokenizer. Any ids have the same effect, such as the bytes of its text.
            ids = tuple(str(call.prompt).encode("utf-8", "replace"))
            call = call._replace(prompt_ids=ids, prompt_tokens=len(ids))
        if question.n == 1 or plan.signature.choices:
            return await self._call(plan, Request(question, call, plan.model.decoupled))
        streams: list[TritonStream] = []
        try:
            for choice in range(question.n):
                streams.append(await self._call(plan, Request(question, call, plan.model.decoupled, choice)))
        except BaseException:
            for stream in streams:
                stream.cancel()
            raise
        return FanOut(streams)

    async def _call(self, plan: Plan, request: Request) -> TritonStream:
        call = request.call
        body, headers = self._message(plan, request)
        if plan.signature.statuses:
            headers += _GRPC_ERRORS
        started = await self._channel.call(_STREAM_INFER, body, headers, call.priority, call.connecting)
        texts = TokenTexts(plan, call.decode, request.question.skip_special_tokens is not False) if plan.ids else None
        return TritonStream(started, Answer(plan, request), texts)

    def _message(self, plan: Plan, request: Request) -> tuple[bytes, bytes]:
        """A request and its headers."""
        call = request.call
        body = plan.encode(request, self._version, call.priority)
        return body, _TRACEPARENT + call.traceparent + self._metadata if call.traceparent else self._metadata

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        """A call for each input, so many at a time: Triton's dynamic batcher puts them together."""
        plan = self._plan or await self._describe()
        places = asyncio.Semaphore(_MAX_EMBEDDED_AT_ONCE)

        async def embed_text(number: int, text: Prompt) -> bytes:
            async with places:
                return await self._embed(plan, Request(question, call._replace(prompt=text), False, number))

        try:
            async with asyncio.TaskGroup() as calls:
                tasks = [calls.create_task(embed_text(number, text)) for number, text in enumerate(question.input)]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return Embeddings(tuple(task.result() for task in tasks), Usage(output_tokens=0))

    async def _embed(self, plan: Plan, request: Request) -> bytes:
        """The vector of one text."""
        call = request.call
        body, headers = self._message(plan, request)
        left_s = call.deadline_s - asyncio.get_running_loop().time()
        try:
            answer = await self._channel.unary(_INFER, body, left_s, headers, call.priority)
        except GrpcError as error:
            if error.status is Status.DEADLINE_EXCEEDED:
                raise TimeoutError from None
            raise errors.of_status(error) from None
        message = pb.ModelInferResponse.FromString(answer)
        vectors = message.raw_output_contents
        if (
            len(vectors) != 1
            or not vectors[0]
            or len(vectors[0]) % _FLOAT_BYTES
            or message.outputs[0].datatype != "FP32"
        ):
            raise FailedError("its answer is no vector of 32-bit floats", "bad_response")
        return bytes(vectors[0])

    async def count(self, query: Query, timeout_s: float) -> int | None:
        """None: Triton counts no tokens."""
        return None

    async def ready(self, timeout_s: float) -> bool:
        """Now and then also whether its tensors still fit; raises FailedError if they do not. `detect` looks first."""
        try:
            self._credential()
            answer = await self._channel.unary(_MODEL_READY, self._ready, timeout_s, self._metadata, priority=0)
        except GrpcError as error:
            if error.status is Status.DEADLINE_EXCEEDED:
                raise TimeoutError from None
            self._plan = None
            raise errors.of_status(error) from None
        except BackendError:
            self._described_at_s = float("-inf")  # it may come back with another model
            raise
        if not pb.ModelReadyResponse.FromString(answer).ready:
            self._plan = None
            return False
        if self._plan is not None and asyncio.get_running_loop().time() > self._described_at_s + _DESCRIBE_S:
            await self._describe()
        return True

    async def signals(self, timeout_s: float) -> ServerLoad:
        """Nothing: over gRPC, Triton reports no queue that holds for these backends. Its metrics page does for some."""
        return ServerLoad(asyncio.get_running_loop().time())

    async def detect(self, timeout_s: float) -> Detected:
        """Also makes ready for requests, if its tensors fit."""
        server = await self._look(timeout_s)
        if server.model is None:
            return Detected("triton", server.version, server.models, misfit=server.missing)
        signature, misfit = _fit(self._signature, server.model)
        if signature is not None and not misfit:
            await self._prepare(server.model, signature)
        return Detected(
            "triton", server.version, server.models, signature=signature.name if signature else "", misfit=misfit
        )

    def _credential(self) -> Mapping[str, str]:
        """Read it anew: it may have been changed. Raises FailedError."""
        try:
            headers = self._headers()
        except CredentialError as error:
            raise FailedError(str(error), "credential") from None
        self._metadata = metadata(*((name.encode(), value.encode()) for name, value in headers.items()))
        return headers

    async def _look(self, timeout_s: float) -> Server:
        headers = self._credential()
        return await look(self._channel.target, self._name, self._version, timeout_s, self._channel.tls, headers)

    async def _describe(self) -> Plan:
        """Make the plan for the model as it is now. Raises BackendError; FailedError if no signature fits."""
        server = await self._look(_LOOK_S)
        if server.model is None:
            raise FailedError(server.missing, "missing")
        signature, misfit = _fit(self._signature, server.model)
        if signature is None or misfit:
            raise FailedError(misfit, "misfit")
        return await self._prepare(server.model, signature)

    async def _prepare(self, model: facts.Model, signature: Signature) -> Plan:
        """The plan for the model; the one that there is, if nothing has changed."""
        self._described_at_s = asyncio.get_running_loop().time()
        if self._plan is not None and self._described == model:
            return self._plan
        plan = Plan(model, signature)
        if signature.name == "trtllm_llmapi" and model.decoupled:
            # Releases differ in what a response carries: the text so far, or what is new.
            plan = Plan(model._replace(text_so_far=await self._repeats(plan)), signature)
        self._plan, self._described = plan, model
        return plan

    async def _repeats(self, plan: Plan) -> bool | None:
        """Whether each response repeats the text before it, by a short answer; None if that was too short to say."""
        loop = asyncio.get_running_loop()
        limit = _TRIAL.max_tokens or 0
        call = CallInfo(-1, limit, 1, b"", "", loop.time() + _LOOK_S, _TRIAL.prompt[0])
        stream = await self._call(plan, Request(_TRIAL, call, decoupled=True))
        texts: list[str] = []
        try:
            async with asyncio.timeout(_LOOK_S):
                while events := await stream.next():
                    texts += [event.text for event in events]
        finally:
            stream.cancel()
        texts = [text for text in texts if text]
        if len(texts) < _TRIAL_TEXTS:
            return None
        return all(later.startswith(earlier) for earlier, later in pairwise(texts))


def _signature(pool: Pool) -> Signature | None:
    """None where it is to be found out."""
    if pool.signature == "mapping" and pool.mapping is not None:
        return of_mapping(pool.mapping)
    return SIGNATURES.get(pool.signature)


def _fit(signature: Signature | None, model: facts.Model) -> tuple[Signature | None, str]:
    """The signature to use, and why the model does not fit it."""
    chosen = signature or facts.recognise(model)
    return chosen, facts.unrecognised(model) if chosen is None else facts.misfit(model, chosen)
