"""What the gateway wants of a model server: one protocol, and an adapter per kind of server behind it."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from inference.contract.server_metrics import ServerLoad
from inference.contract.snapshot import Endpoint, Pool
from inference.core.capabilities import Capabilities
from inference.core.events import Event, Head, ToolCallDelta, Usage
from inference.core.passing.request import Passed
from inference.core.question import Prompt, Question
from inference.wires.connect import ANYHOW, Connecting

__all__ = [
    "Backend",
    "CallInfo",
    "Connector",
    "Detected",
    "Embeddings",
    "Event",
    "Link",
    "Query",
    "ServerLoad",
    "Stream",
    "ToolCallDelta",
    "Usage",
]


Query = Question | Passed
"""What a backend gets: a question, or the request itself where it `passes`."""


Decode = Callable[[list[int], int, bool], Awaitable[str | None]]


class CallInfo(NamedTuple):
    """What a call needs besides the question.

    `max_tokens` is the limit on output tokens for servers that need one; `question.max_tokens` is None where the client
    has set none. `prompt` is the rendered prompt, where the backend's `needs_prompt` says so. `tenant` is whose call it is.
    `prompt_ids` are the prompt's where the backend's `needs_ids` says so, and `decode` makes text of those of the answer
    (`ModelText.decode`).
    """

    prompt_tokens: int  # -1 where they are not known
    max_tokens: int
    priority: int  # 1 is served first
    traceparent: bytes
    request_id: str
    deadline_s: float  # of the whole answer, on the event loop's clock
    prompt: Prompt = ""
    connecting: Connecting = ANYHOW
    tenant: str = ""
    prompt_ids: tuple[int, ...] = ()
    decode: Decode | None = None


class Stream(Protocol):
    """A call under way. `head` is that of an answer that is handed on; its events have `raw`, and it ends once the server's does,
    or fails where that is no whole answer.
    """

    @property
    def head(self) -> Head | None: ...

    @property
    def waiting(self) -> bool:
        """Whether it has not been sent, because the server is at its limit of calls."""

    @property
    def awaited_since_s(self) -> float:
        """When `next` began to wait for the server, on the monotonic clock; 0 while it does not."""

    async def sent(self) -> None:
        """Wait until it has been sent. Raises UnreachableError."""

    async def next(self) -> Sequence[Event]:
        """The events that have come, at least one; none at the end of the answer. Raises BackendError once those that came
        before it have been given.

        Nothing is read after an event that completes the answer: all choices have their finish reason, and there was a
        `usage`. An adapter that must read its connection to the end does so before it gives that event. An end before each
        choice has its finish reason is a failure of the server.
        """

    def cancel(self) -> None:
        """Make the server stop now. Harmless once the call has ended."""


class Embeddings(NamedTuple):
    """One vector per input, each as little-endian 32-bit floats."""

    vectors: tuple[bytes, ...]
    usage: Usage


class Detected(NamedTuple):
    """What a replica is. `misfit` says why the gateway cannot serve it, with the remedy; empty where it can. `card` is what its
    server says of the model in its list of models.
    """

    kind: str
    version: str = ""
    models: tuple[str, ...] = ()
    context_length: int = 0  # tokens; 0 where it is not known
    signature: str = ""
    misfit: str = ""
    card: Mapping[str, Any] = MappingProxyType({})


class Link(Protocol):
    """The connection to one server, which several backends may share. `target` is its address."""

    target: str

    @property
    def full(self) -> bool:
        """Whether the server is at its limit of calls, so that another call would wait."""

    @property
    def arrivals(self) -> int:
        """How often something has arrived from the server. From a server that hangs, nothing does."""

    def ping(self) -> None:
        """Provoke a sign of life, where the protocol can; it counts in `arrivals`."""

    def renew(self) -> None:
        """Drop the connections that no call uses, so that the next call makes a new one."""

    def disconnect(self) -> None:
        """Drop connections at once; calls in flight fail as LostCallError. The next call connects again."""

    def close(self) -> None:
        """No more calls; those in flight go on."""


class Backend(Protocol):
    """One model on one server."""

    @property
    def capabilities(self) -> Capabilities:
        """What it does with each parameter: a fixed table per kind of server and signature."""

    @property
    def needs_prompt(self) -> bool:
        """Whether it takes a rendered prompt, so that the gateway applies the model's template."""

    @property
    def needs_ids(self) -> bool:
        """Whether it takes the rendered prompt as token ids."""

    @property
    def link(self) -> Link: ...

    @property
    def passes(self) -> bool:
        """Whether requests are handed on to it as they came, and its answers to clients."""

    async def generate(self, query: Query, call: CallInfo) -> Stream:
        """Start generating. Raises BackendError."""

    async def embed(self, question: Question, call: CallInfo) -> Embeddings:
        """Raises BackendError."""

    async def count(self, query: Query, timeout_s: float) -> int | None:
        """The prompt's tokens as the server counts them; None if it has no route for that. Raises BackendError,
        TimeoutError.
        """

    async def ready(self, timeout_s: float) -> bool:
        """Whether the model is loaded and answers. Raises BackendError, and TimeoutError if there was no answer in time."""

    async def signals(self, timeout_s: float) -> ServerLoad:
        """What it reports of its load. Raises BackendError, TimeoutError."""

    async def detect(self, timeout_s: float) -> Detected:
        """What it is. Raises BackendError, TimeoutError."""


class Connector(Protocol):
    """Makes the backends of one protocol of pools."""

    def link_key(self, pool: Pool, endpoint: Endpoint) -> Hashable:
        """The address, and what else decides how it is connected to. Replicas with the same one share a link."""

    def connect(self, pool: Pool, endpoint: Endpoint, timeout_s: float) -> Link:
        """A link that connects with its first call, within `timeout_s`."""

    def backend(self, link: Link, pool: Pool, endpoint: Endpoint) -> Backend:
        """The pool's model at `endpoint`, over `link`."""
