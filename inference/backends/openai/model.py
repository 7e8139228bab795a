"""One model on an OpenAI-compatible server."""

import asyncio
import hashlib
from typing import Any

import msgspec

from inference.backends.credentials import CredentialError, Credentials
from inference.backends.metrics_page import MAX_PAGE
from inference.backends.openai.detect import Detection, detect
from inference.backends.openai.link import Headers, HttpLink, Trust, read_all
from inference.backends.openai.stream import HttpStream, Rename
from inference.backends.port import CallInfo, Detected, Embeddings, Query, ServerLoad
from inference.contract.address import Url, parse_url
from inference.contract.server_metrics import read_load
from inference.contract.snapshot import Pool
from inference.contract.stages import OPERATIONS
from inference.core.backend_errors import (
    BackendError,
    BusyError,
    FailedError,
    InvalidError,
    ServerAnswer,
    UnreachableError,
    UnservedError,
)
from inference.core.capabilities import Capabilities
from inference.core.events import Head
from inference.core.passing.answers import MAX_COUNT, reader_of
from inference.core.passing.embeddings import with_items, without_items
from inference.core.passing.json_members import with_value
from inference.core.passing.request import Passed
from inference.core.question import GENERATION, Question
from inference.core.servers import identify, refusals
from inference.core.servers.dialects import DIALECTS, OTHER, UNLISTED, Dialect, offers
from inference.core.servers.refusals import Refusal
from inference.core.servers.retry_after import read_retry_after
from inference.wires.http.response import Response

_MAX_ERROR_BYTES = 1 << 20
_MAX_RETRY_S = 60.0
_COUNTED = frozenset(("/v1/chat/completions", "/v1/completions"))
"""Streams of these bring counts where they are asked for."""
_COUNTS = b'{"include_usage":true}'
_COUNTED_MEMBERS = ("messages", "tools", "chat_template_kwargs", "add_generation_prompt", "continue_final_message")
_MODEL_IN = (("model",), ("response", "model"), ("message", "model"))
"""Where an answer, an event of Responses and one of Anthropic's Messages name the model."""
_HEADERS = (
    b"content-type",
    b"content-encoding",
    b"content-disposition",
    b"retry-after",
    b"retry-after-ms",
    b"x-should-retry",
)
"""Of an answer, those that mean something to a client."""
_RUNS_NO_MODEL = frozenset(("tokenize", "detokenize"))
_OURS = (401, 403)
"""What a server says of the pool's credential, and not of the client's."""
_REDIRECT = (
    "redirects are not followed, because the secret would go along. Its operator enters the URL of the API itself"
)


class OpenAIModel:
    """`fault` says what of its settings cannot be used: then it is never ready. Until `detect` has found out which server
    it is, it is called as any OpenAI-compatible one.
    """

    needs_prompt = needs_ids = False
    passes = True

    def __init__(
        self, link: HttpLink, pool: Pool, metrics: str, credentials: Credentials, trust: Trust, fault: str = ""
    ) -> None:
        self.link = link
        self.dialect: Dialect = DIALECTS.get(pool.server, OTHER)
        self._capabilities = offers(self.dialect.name, OPERATIONS)
        self._pool = pool
        self._credentials = credentials
        self._trust = trust
        self._fault = fault
        self._base = link.url
        self._root = self._base._replace(path=self._base.path.removesuffix("/v1"))
        self._urls: dict[str, Url] = {}
        self._metrics = parse_url(metrics, link_local=True) if metrics else None
        self._detection: Detection | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What its kind of server does with each parameter, and what its model is for where the server says so."""
        return self._capabilities

    async def generate(self, query: Query, call: CallInfo) -> HttpStream:
        """Hand a request on. Raises BackendError."""
        assert isinstance(query, Passed)
        passed = query
        additions, headers = self._additions(passed, call)
        wants_counts = "stream_options" in additions
        response = await self._post(self._url_of(passed.path), passed, passed.rendered(additions), call, headers)
        streams = response.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream")
        head = Head(streams, _handed_on(response.headers), response.status)
        reader = reader_of(passed.path, passed.choices)
        answer = HttpStream(self.link, response, head, reader, self._rename(passed), counts_are_ours=wants_counts)
        if not streams:
            try:
                answer.take_whole(await read_all(response))
            except BaseException:
                answer.cancel()
                raise
        return answer

    def _additions(self, passed: Passed, call: CallInfo) -> tuple[dict[str, bytes], Headers]:
        """What the gateway changes in a body, and adds to the headers."""
        additions: dict[str, bytes] = {}
        document = passed.document
        if passed.model != self._pool.model_name:
            additions["model"] = msgspec.json.encode(self._pool.model_name)
        if self._pool.salt_prefix_cache and self.dialect.salts_prefixes and passed.operation not in _RUNS_NO_MODEL:
            additions["cache_salt"] = msgspec.json.encode(_salt(call.tenant, document.get("cache_salt")))
        if passed.operation not in GENERATION:
            return additions, {}
        if passed.streams and passed.path in _COUNTED and document.get("stream_options") is None:
            additions["stream_options"] = _COUNTS
        said, headers = self._priority(call.priority)
        if said is not None and document.get("priority") is None and passed.path in _COUNTED:
            additions["priority"] = b"%d" % said
        return additions, headers

    def _rename(self, passed: Passed) -> Rename | None:
        """Clients get the name by which they have asked."""
        if passed.model == self._pool.model_name:
            return None
        old, new = msgspec.json.encode(self._pool.model_name), msgspec.json.encode(passed.model)

        def rename(body: bytes) -> bytes:
            try:
                for path in _MODEL_IN:
                    body = with_value(body, path, old, new)
            except ValueError:  # no JSON
                pass
            return body

        def rename_around(body: bytes) -> bytes:
            short = without_items(body)
            return rename(body) if short is None else with_items(rename(short[0]), body[short[1] : short[2]])

        return rename_around if passed.operation == "embeddings" else rename

    def _url_of(self, path: str) -> Url:
        """Where the server has what is at `path` here: below the base of its API, or below its root."""
        url = self._urls.get(path)
        if url is None:
            inside = path.removeprefix("/v1")
            url = self._urls[path] = below(self._base, inside) if inside != path else below(self._root, path)
        return url

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        """Never called: what asks for embeddings is handed on as well."""
        raise NotImplementedError

    async def count(self, query: Query, timeout_s: float) -> int | None:
        """The prompt's tokens as the server counts them; None if it cannot. Raises BackendError, TimeoutError."""
        assert isinstance(query, Passed)
        passed = query
        dialect = self.dialect
        path, field = (dialect.tokenize, "count") if dialect.tokenize else (dialect.input_tokens, "input_tokens")
        names = _COUNTED_MEMBERS if passed.operation == "chat" else ("prompt",) if dialect.tokenize else ()
        body: dict[str, Any] = dict(passed.as_it_stands(names)) if path else {}
        if not body:
            return None
        sent = msgspec.json.encode({"model": self._pool.model_name, **body})
        async with asyncio.timeout(timeout_s):
            response = await self.link.post(below(self._root, path), sent, self._headers(), self._trust)
            try:
                answer = await read_all(response)
            finally:
                self.link.release(response)
        if response.status != 200:
            return None  # an older server, or one whose proxy keeps the route from us
        count = identify.read_object(answer).get(field)
        return count if type(count) is int and 0 <= count <= MAX_COUNT else None

    async def ready(self, timeout_s: float) -> bool:
        """Whether it serves the model. Raises BackendError with the reason where it will not as it is set up, TimeoutError."""
        if self._fault:
            raise FailedError(self._fault, "misconfigured")
        async with asyncio.timeout(timeout_s):
            if self.dialect is UNLISTED:  # whatever it says of this URL, it answers
                status, _ = await self._get("", of_api=True)
                return self._is_up(status if status in (401, 403, 429) or status >= 500 else 200)
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
        return read_load(page, at_s)._replace(page=hash(page)) if status == 200 else ServerLoad(at_s)

    async def detect(self, timeout_s: float) -> Detected:
        """What it is. Raises BackendError, TimeoutError."""
        if self.dialect is UNLISTED:
            return Detected(self.dialect.name, models=(self._pool.model_name,))
        async with asyncio.timeout(timeout_s):
            found_out = await detect(
                self._get,
                self.link.target,
                self._pool.model_name,
                parameters=self._pool.unknown_parameters != "pass",
            )
        self._detection = found_out
        if self._pool.server == "auto":
            self.dialect = DIALECTS[found_out.detected.kind]
        self._capabilities = offers(self.dialect.name, found_out.operations)._replace(listed=found_out.listed)
        return found_out.detected

    async def _misfit(self) -> str:
        """Why the server does not serve the model now; empty where it lists it, or nothing. Raises BackendError."""
        if self.dialect is UNLISTED:
            return ""
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
            why = f": {_REDIRECT}" if _redirects(status) else ""
            raise FailedError(f"its probe was answered {status}{why}", str(status))
        return True

    async def _get(self, path: str, *, of_api: bool = False) -> tuple[int, bytes]:
        url = below(self._base if of_api else self._root, path)
        return await self.link.get(url, self._headers(), self._trust)

    async def _post(self, url: Url, passed: Passed, body: bytes, call: CallInfo, more: Headers) -> Response:
        """The answer to a call, whose status says success. Raises BackendError."""
        headers = self._headers() | more
        traceparent = call.traceparent.decode()
        headers["Content-Type"] = passed.content_type
        headers["traceparent"] = traceparent
        # Of this attempt alone: two attempts may meet at one server, and vLLM makes its own ids of this.
        headers["X-Request-Id"] = f"{call.request_id}-{traceparent[36:52]}"
        response = await self.link.post(url, body, headers, self._trust, call.connecting)
        if 200 <= response.status < 300:
            return response
        status, retry_after = response.status, response.headers.get(b"retry-after", b"").decode("latin-1")
        answer = ServerAnswer(status, _handed_on(response.headers))
        try:
            answer = answer._replace(body=await read_all(response, _MAX_ERROR_BYTES))
        except BackendError:
            pass
        finally:
            self.link.release(response)
        refusal = refusals.read(status, answer.body, blames_client_for_all=self.dialect.blames_client_for_all)
        if refusal.kind == "missing" and refusal.param != "model" and not await self._misfit():
            error: BackendError = UnservedError(
                refusal.what, str(status), refusal.said
            )  # it has the model: it lacks the route
        else:
            error = self._error(refusal, status, retry_after)
        if status not in _OURS and not _redirects(status) and not isinstance(error, UnreachableError):
            error.answer = answer
        raise error

    def _error(self, refusal: Refusal, status: int, retry_after: str) -> BackendError:
        if refusal.kind == "unserved":
            return UnservedError(refusal.what, str(status), refusal.said)
        if refusal.kind == "invalid":
            return InvalidError(refusal.what, status, refusal.param or "", refusal.code, refusal.said)
        if refusal.kind == "busy":
            wait_s = min(read_retry_after(retry_after), _MAX_RETRY_S)
            return BusyError(refusal.what, str(status), wait_s, refusal.said)
        if status in _OURS:
            return FailedError(_wrong_credential(self._pool, self.link.target, status), str(status))
        if _redirects(status):
            error = FailedError(f"{self.link.target} answers {status}: {_REDIRECT}", str(status))
            error.remedy = f"Its server answers {status}: {_REDIRECT}."
            return error
        if (
            status == 404 and refusal.param == "model"
        ):  # it has unloaded it, as vLLM can an adapter: found out again before it is used
            return UnreachableError(f"{self.link.target} no longer serves {self._pool.model_name!r}", "404")
        return FailedError(refusal.what, str(status), refusal.said)

    def _headers(self) -> Headers:
        """Raises FailedError where a secret of the pool is missing."""
        pool, read = self._pool, self._credentials.read
        try:
            headers = {"Authorization": f"Bearer {read(pool.credential)}"} if pool.credential else {}
            for header in pool.headers:
                headers[header.name] = header.value or read(header.secret)
        except CredentialError as error:
            raise FailedError(str(error), "misconfigured") from None
        return headers

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


def below(url: Url, path: str) -> Url:
    return url._replace(path=url.path + path)


def _salt(tenant: str, given: object) -> str:
    """Of a tenant's prefixes alone, whatever the client has `given`: that keeps apart what it wants apart within them."""
    return hashlib.sha256(msgspec.json.encode(("weir", tenant, given))).hexdigest()


def _wrong_credential(pool: Pool, url: str, status: int) -> str:
    names = filter(None, (pool.credential, *(header.secret for header in pool.headers)))
    name = ", ".join(map(repr, names)) or "none"
    return f"{url} answers {status}: the credential of pool {pool.name!r} ({name}) is not accepted there"


def _redirects(status: int) -> bool:
    return 300 <= status < 400


def _handed_on(headers: dict[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, headers[name]) for name in _HEADERS if name in headers)
