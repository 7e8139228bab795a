"""One model on an OpenAI-compatible server."""

import asyncio
import base64
import struct

import msgspec

from inference.backends.credentials import CredentialError, Credentials
from inference.backends.metrics_page import MAX_PAGE
from inference.backends.openai.detect import Detection, detect
from inference.backends.openai.link import Headers, HttpLink, Trust, read_all
from inference.backends.openai.stream import HttpStream
from inference.backends.port import CallInfo, Detected, Embeddings, ServerLoad
from inference.contract.address import Url, parse_url
from inference.contract.server_metrics import read_load
from inference.contract.snapshot import Pool
from inference.core.backend_errors import (
    BackendError,
    BusyError,
    FailedError,
    InvalidError,
    UnreachableError,
    UnservedError,
)
from inference.core.capabilities import Capabilities
from inference.core.events import Usage
from inference.core.question import Question
from inference.core.servers import bodies, identify, refusals
from inference.core.servers.dialects import DIALECTS, OTHER, Dialect, offers
from inference.core.servers.refusals import Refusal
from inference.core.servers.retry_after import read_retry_after
from inference.wires.http.response import Response

_MAX_ERROR_BYTES = 64 << 10
_MAX_RETRY_S = 60.0
_LIMITS = ("max_tokens", "max_completion_tokens")
_PATHS = {"chat": "/chat/completions", "text_completion": "/completions", "embeddings": "/embeddings"}


class _Embedding(msgspec.Struct):
    index: int
    embedding: str | list[float]


class _EmbeddingUsage(msgspec.Struct):
    prompt_tokens: int | None = None


class _EmbeddingsAnswer(msgspec.Struct):
    data: list[_Embedding]
    usage: _EmbeddingUsage | None = None


_decode_embeddings = msgspec.json.Decoder(_EmbeddingsAnswer).decode


class OpenAIModel:
    """`fault` says what of its settings cannot be used: then it is never ready. Until `detect` has found out which server
    it is, it is called as any OpenAI-compatible one.
    """

    needs_prompt = False

    def __init__(
        self, link: HttpLink, pool: Pool, metrics: str, credentials: Credentials, trust: Trust, fault: str = ""
    ) -> None:
        self.link = link
        self.dialect: Dialect = DIALECTS.get(pool.server, OTHER)
        self._capabilities = self.dialect.capabilities
        self._pool = pool
        self._credentials = credentials
        self._trust = trust
        self._fault = fault
        self._base = link.url
        self._root = self._base._replace(path=self._base.path.removesuffix("/v1"))
        self._urls = {operation: below(self._base, path) for operation, path in _PATHS.items()}
        self._metrics = parse_url(metrics, link_local=True) if metrics else None
        self._detection: Detection | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What its kind of server does with each parameter, and what its model is for where the server says so."""
        return self._capabilities

    async def generate(self, question: Question, call: CallInfo) -> HttpStream:
        """Start generating. Raises BackendError."""
        limit = self._max_tokens(question, call)
        try:
            return await self._generate(question, call, limit)
        except InvalidError as error:
            ours = limit is not None and question.max_tokens is None
            if not ours or (error.code != "context_length_exceeded" and error.param not in _LIMITS):
                raise
        # Prompt and limit are longer than its context together, so that what is left of the context is less than the limit.
        return await self._generate(question, call, None)

    async def _generate(self, question: Question, call: CallInfo, max_tokens: int | None) -> HttpStream:
        dialect = self.dialect
        stream = dialect.streams_logprobs_with_tools or not (question.tools and question.logprobs)
        priority, headers = self._priority(call.priority)
        body = bodies.generation(
            question,
            self._pool.model_name,
            dialect,
            max_tokens=max_tokens,
            priority=priority,
            stream=stream,
        )
        response = await self._post(self._urls[question.operation], body, call, headers)
        answer = HttpStream(self.link, response, question.n * max(1, len(question.prompt)))
        if (
            not response.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream")
        ):  # it does not stream, or was not to
            try:
                answer.take_whole(await read_all(response))
            except BaseException:
                answer.cancel()
                raise
        return answer

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        """Raises BackendError."""
        body = bodies.embeddings(question, self._pool.model_name, self.dialect)
        response = await self._post(self._urls["embeddings"], body, call, {})
        try:
            answer = _decode_embeddings(await read_all(response))
            vectors = [_floats(item.embedding) for item in sorted(answer.data, key=lambda item: item.index)]
        except (msgspec.DecodeError, ValueError) as error:
            raise FailedError("the server sent no embeddings", "bad_response", str(error)) from None
        finally:
            self.link.release(response)
        if len(vectors) != len(question.input):
            raise FailedError(f"{len(vectors)} embeddings for {len(question.input)} inputs", "bad_response")
        prompt_tokens = answer.usage.prompt_tokens if answer.usage is not None else None
        return Embeddings(tuple(vectors), Usage(-1 if prompt_tokens is None else prompt_tokens, 0))

    async def count(self, question: Question, timeout_s: float) -> int | None:
        """The prompt's tokens as the server counts them; None if it cannot. Raises BackendError, TimeoutError."""
        dialect = self.dialect
        path, field = (dialect.tokenize, "count") if dialect.tokenize else (dialect.input_tokens, "input_tokens")
        body = bodies.counting(question, self._pool.model_name, dialect) if path else None
        if body is None:
            return None
        async with asyncio.timeout(timeout_s):
            response = await self.link.post(below(self._root, path), body, self._headers(), self._trust)
            try:
                answer = await read_all(response)
            finally:
                self.link.release(response)
        if response.status != 200:
            return None  # an older server, or one whose proxy keeps the route from us
        count = identify.read_object(answer).get(field)
        return count if isinstance(count, int) else None

    async def ready(self, timeout_s: float) -> bool:
        """Whether it serves the model. Raises BackendError with the reason where it will not as it is set up, TimeoutError."""
        if self._fault:
            raise FailedError(self._fault, "misconfigured")
        async with asyncio.timeout(timeout_s):
            if self.dialect.health:
                status, _ = await self._get(self.dialect.health)
                if status != 404:  # versions before it had this route
                    return self._is_up(status)
            status, body = await self._get("/models", of_api=True)
        if not self._is_up(status):
            return False
        if fault := self._misfit_of(body):
            raise FailedError(fault, "misfit")
        return True

    async def signals(self, timeout_s: float) -> ServerLoad:
        """What its metrics page says of its load. Raises BackendError, TimeoutError."""
        at_s = asyncio.get_running_loop().time()
        if self._metrics is None and not self.dialect.metrics:
            return ServerLoad(at_s)
        url = self._metrics or below(self._root, self.dialect.metrics)
        # The secret is for the server, and not for whoever has a page of its metrics.
        headers = self._headers() if url[:3] == self._base[:3] else {}  # scheme, host and port
        async with asyncio.timeout(timeout_s):
            status, page = await self.link.get(url, headers, self._trust, MAX_PAGE)
        return read_load(page, at_s) if status == 200 else ServerLoad(at_s)

    async def detect(self, timeout_s: float) -> Detected:
        """What it is. Raises BackendError, TimeoutError."""
        async with asyncio.timeout(timeout_s):
            found_out = await detect(self._get, self.link.target, self._pool.model_name)
        self._detection = found_out
        if self._pool.server == "auto":
            self.dialect = DIALECTS[found_out.detected.kind]
        self._capabilities = offers(self.dialect.name, found_out.operations)
        return found_out.detected

    async def _misfit(self) -> str:
        """Why the server does not serve the model now; empty where it lists it. Raises BackendError."""
        status, body = await self._get("/models", of_api=True)
        return self._misfit_of(body) if status == 200 else f"its list of models is not to be had: HTTP {status}"

    def _misfit_of(self, listing: bytes) -> str:
        names = identify.read_listing(listing, self._pool.model_name)
        return identify.misfit(self.link.target, self._pool.model_name, names.models if names else ())

    def _is_up(self, status: int) -> bool:
        if status in (401, 403):
            raise FailedError(_wrong_credential(self._pool, self.link.target, status), "misconfigured")
        if status == 429:
            raise BusyError("its probe was answered 429", "429")
        if status != 200:
            raise FailedError(f"its probe was answered {status}", str(status))
        return True

    async def _get(self, path: str, *, of_api: bool = False) -> tuple[int, bytes]:
        url = below(self._base if of_api else self._root, path)
        return await self.link.get(url, self._headers(), self._trust)

    async def _post(self, url: Url, body: bytes, call: CallInfo, more: Headers) -> Response:
        """The answer to a call, whose status is 200. Raises BackendError."""
        headers = self._headers() | more
        traceparent = call.traceparent.decode()
        headers["Content-Type"] = "application/json"
        headers["traceparent"] = traceparent
        # Of this attempt alone: two attempts may meet at one server, and vLLM makes its own ids of this.
        headers["X-Request-Id"] = f"{call.request_id}-{traceparent[36:52]}"
        response = await self.link.post(url, body, headers, self._trust, call.connecting)
        if response.status == 200:
            return response
        status, retry_after = response.status, response.headers.get(b"retry-after", b"").decode("latin-1")
        try:
            said = await read_all(response, _MAX_ERROR_BYTES)
        except BackendError:
            said = b""
        finally:
            self.link.release(response)
        refusal = refusals.read(status, said, blames_client_for_all=self.dialect.blames_client_for_all)
        if refusal.kind == "missing" and refusal.param != "model" and not await self._misfit():
            raise UnservedError(refusal.what, str(status), refusal.said)  # it has the model, so it lacks the route
        raise self._error(refusal, status, retry_after)

    def _error(self, refusal: Refusal, status: int, retry_after: str) -> BackendError:
        if refusal.kind == "unserved":
            return UnservedError(refusal.what, str(status), refusal.said)
        if refusal.kind == "invalid":
            return InvalidError(refusal.message, 413 if status == 413 else 400, refusal.param or "", refusal.code)
        if refusal.kind == "busy":
            wait_s = min(read_retry_after(retry_after), _MAX_RETRY_S)
            return BusyError(refusal.what, str(status), wait_s, refusal.said)
        if status in (401, 403):
            return FailedError(_wrong_credential(self._pool, self.link.target, status), str(status))
        if (
            status == 404 and refusal.param == "model"
        ):  # it has unloaded it, as vLLM can an adapter: found out again before it is used
            return UnreachableError(f"{self.link.target} no longer serves {self._pool.model_name!r}", "404")
        return FailedError(refusal.what, str(status), refusal.said)

    def _headers(self) -> Headers:
        """Raises FailedError where the pool's credential is missing."""
        if not self._pool.credential:
            return {}
        try:
            return {"Authorization": f"Bearer {self._credentials.read(self._pool.credential)}"}
        except CredentialError as error:
            raise FailedError(str(error), "misconfigured") from None

    def _priority(self, priority: int) -> tuple[int | None, Headers]:
        """The priority in the server's own terms, in the body and in headers. `priority` 1 is served first."""
        direction = self.dialect.priority
        if direction == "lower_first":
            return priority, {}
        if direction == "header":  # larger first; lib/llm/src/protocols/common/extensions of ai-dynamo/dynamo
            return None, {"x-dynamo-request-priority": str(max(0, 10 - priority))}
        if direction == "higher_first" and self._detection is not None and self._detection.takes_priority:
            return (priority if self._detection.lower_first else -priority), {}
        return None, {}

    def _max_tokens(self, question: Question, call: CallInfo) -> int | None:
        """The limit on output tokens to send; None leaves it to the server, whose own is then the tighter one."""
        if question.max_tokens is not None:
            return question.max_tokens
        if question.operation == "text_completion" and 0 < self.dialect.default_text_tokens <= call.max_tokens:
            return None  # as OpenAI's own servers have it
        context = self._detection.detected.context_length if self._detection is not None else 0
        counted = call.prompt_tokens if call.prompt_is_counted else 0
        if context and counted + call.max_tokens >= context:
            return None  # more than the context has room for is an error on some servers
        return call.max_tokens


def below(url: Url, path: str) -> Url:
    return url._replace(path=url.path + path)


def _wrong_credential(pool: Pool, url: str, status: int) -> str:
    name = repr(pool.credential) if pool.credential else "none"
    return f"{url} answers {status}: the credential of pool {pool.name!r} ({name}) is not accepted there"


def _floats(vector: str | list[float]) -> bytes:
    """Little-endian 32-bit floats. Raises ValueError."""
    if isinstance(vector, str):
        return base64.b64decode(vector, validate=True)
    return struct.pack(f"<{len(vector)}f", *vector)
