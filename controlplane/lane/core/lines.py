"""Checks the lines of a batch's input before one of them runs."""

import hashlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from inference.contract.lane import ENDPOINTS
from inference.contract.lenient import UNREADABLE, saying_why

T = TypeVar("T")

MAX_REQUESTS = 50_000
MAX_INPUT_BYTES = 200 << 20
MAX_EMBEDDING_INPUTS = 50_000
MAX_PROBLEMS = 100
MAX_LINE_BYTES = 8 << 20
"""Twice what the gateway takes by default."""
MAX_ID_CHARS = 512
_DIGEST_BYTES = 12


class Problem(NamedTuple):
    """As OpenAI's `BatchError`. `line` counts from 1; 0 is about the file."""

    code: str
    message: str
    line: int = 0
    param: str = ""


class Place(NamedTuple):
    """A line: its number in the file, from 1, and its bytes. Lines of one `prefix` begin with the same tools and system prompt."""

    number: int
    offset: int
    length: int
    prefix: int = 0


class Line(msgspec.Struct):
    """A request of a batch. Its body is sent as it is written."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class _Body(msgspec.Struct):
    model: Any = None
    stream: Any = None
    background: Any = None
    input: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    system: msgspec.Raw = msgspec.Raw()
    instructions: msgspec.Raw = msgspec.Raw()
    tools: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct):
    role: Any = None


_line = msgspec.json.Decoder(Line)
_body = msgspec.json.Decoder(_Body)
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_message = msgspec.json.Decoder(_Message)


def decode(text: bytes) -> Line:
    """Raises msgspec.DecodeError."""
    return _line.decode(text)


_SPARE_FRAMES = 64


def checked(text: bytes | msgspec.Raw, read: Callable[[bytes], T], spare: int = _SPARE_FRAMES) -> T:
    """What `read` makes of JSON that can be read again from deeper in the stack, which how deeply it may be nested depends on. Raises
    msgspec.DecodeError.
    """
    if spare:
        return checked(text, read, spare - 1)
    text = bytes(text)
    with saying_why():
        text.decode()  # msgspec leaves out what it skips
        if text.startswith(BOM_UTF8):
            raise msgspec.DecodeError("it begins with a byte order mark (U+FEFF): leave that out")
        return read(text)


class Check:
    """Reads lines one after the other. It keeps their places and digests of their ids, and no text."""

    def __init__(self, endpoint: str) -> None:
        self.places: list[Place] = []
        self.problems: list[Problem] = []
        self.model = ""  # of the first line
        self._endpoint = endpoint
        self._ids: set[bytes] = set()
        self._inputs = 0
        self._is_over = False

    @property
    def full(self) -> bool:
        """Whether no more problems are listed."""
        return self._is_over or len(self.problems) >= MAX_PROBLEMS

    def take(self, text: bytes, place: Place) -> None:
        """The next line, without its end. An empty one is skipped."""
        if self.full or not text.strip():
            return
        if len(self.places) == MAX_REQUESTS:
            self._is_over = True
            message = f"A batch has at most {MAX_REQUESTS} requests: split the file."
            self.problems.append(Problem("too_many_requests", message, place.number))
            return
        self.places.append(place)
        problem = self._problem(text, place.number)
        if problem is not None:
            self.problems.append(problem)

    def too_long(self, number: int) -> None:
        message = f"The line has more than {MAX_LINE_BYTES} bytes: shorten its request."
        self.problems.append(Problem("line_too_long", message, number))

    def end(self) -> list[Problem]:
        """All problems, at most MAX_PROBLEMS."""
        if not self.places and not self.problems:
            self.problems.append(Problem("empty_file", "The file has no request: write one to a line, as JSON."))
        return self.problems[:MAX_PROBLEMS]

    def _problem(self, text: bytes, number: int) -> Problem | None:
        try:
            line = checked(text, _line.decode)
            body = _body.decode(line.body)
        except msgspec.DecodeError as error:
            code = "invalid_request" if isinstance(error, msgspec.ValidationError) else "invalid_json_line"
            param = _path(str(error))
            return Problem(code, f"The line is not a request of a batch: {error}", number, param)
        if not 0 < len(line.custom_id) <= MAX_ID_CHARS:
            return Problem(
                "invalid_custom_id", f"`custom_id` needs 1 to {MAX_ID_CHARS} characters.", number, "custom_id"
            )
        digest = hashlib.blake2b(line.custom_id.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest()
        if digest in self._ids:
            message = "An earlier line has the same `custom_id`: give each line its own."
            return Problem("duplicate_custom_id", message, number, "custom_id")
        self._ids.add(digest)
        if line.method != "POST":
            return Problem("invalid_method", "`method` must be POST.", number, "method")
        if line.url != self._endpoint:
            return Problem("mismatched_url", f"`url` must be the batch's endpoint, {self._endpoint}.", number, "url")
        if not isinstance(body.model, str) or not body.model or "\0" in body.model:
            return Problem("missing_model", "`body.model` must name a model.", number, "body.model")
        if body.stream or body.background:
            name = "stream" if body.stream else "background"
            message = f"What waits here is answered whole: leave `body.{name}` out."
            return Problem(f"{name}_not_supported", message, number, f"body.{name}")
        self.model = self.model or body.model
        self.places[-1] = self.places[-1]._replace(prefix=_prefix(body))
        return self._too_many_inputs(body, number)

    def _too_many_inputs(self, body: _Body, number: int) -> Problem | None:
        if self._endpoint != "/v1/embeddings":
            return None
        before = self._inputs
        given = bytes(body.input)
        self._inputs += len(_raws.decode(given)) if given.startswith(b"[") else 1
        if before <= MAX_EMBEDDING_INPUTS < self._inputs:
            message = f"A batch has at most {MAX_EMBEDDING_INPUTS} inputs of embeddings: split the file."
            return Problem("too_many_inputs", message, number, "body.input")
        return None


def _path(message: str) -> str:
    """The member that msgspec names, such as `body` of "… - at `$.body`"."""
    _, _, at = message.partition("at `$")
    return at.rstrip("`").lstrip(".")


def _prefix(body: _Body) -> int:
    """A number of 31 bits for what the prompt begins with; 0 where it has neither tools nor a system prompt of its own."""
    begins = [bytes(it) for it in (body.tools, body.system, body.instructions)]
    try:
        first = next(iter(_raws.decode(body.messages)), None) if bytes(body.messages) else None
        if first is not None and _message.decode(first).role in ("system", "developer"):
            begins.append(bytes(first))
    except msgspec.DecodeError:
        pass  # the gateway says what is wrong with them
    return crc32(b"".join(begins)) >> 1


class RefusedError(ValueError):
    """Permanent: the request for a batch or file is wrong. `param` names the member."""

    def __init__(self, message: str, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param, self.code = param, code


MAX_METADATA, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512
MIN_EXPIRY_S, MAX_EXPIRY_S = 3_600, 2_592_000
WINDOW_S = {"24h": 86_400}


class ExpiresAfter(msgspec.Struct):
    anchor: str
    seconds: int


class _OfModel(msgspec.Struct):
    model: str


class _First(msgspec.Struct):
    body: _OfModel


def model_of(text: bytes) -> str:
    """Of a line; empty where it says none."""
    try:
        return msgspec.json.decode(text, type=_First).body.model
    except UNREADABLE:
        return ""


class NewBatch(msgspec.Struct):
    """The body of POST /v1/batches."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_expires_after: ExpiresAfter | None = None


def new_batch(body: bytes) -> NewBatch:
    """Raises RefusedError."""
    wanted = read(body, NewBatch, "batch")
    one_of("endpoint", wanted.endpoint, sorted(ENDPOINTS))
    one_of("completion_window", wanted.completion_window, WINDOW_S)
    check_metadata(wanted.metadata)
    if wanted.output_expires_after is not None:
        expiry_s(wanted.output_expires_after.anchor, wanted.output_expires_after.seconds, "output_expires_after")
    return wanted


def read(body: bytes, kind: type[T], what: str) -> T:
    """What a client's body says. Raises RefusedError, which calls it `what`."""
    try:
        return checked(body, msgspec.json.Decoder(kind).decode)
    except msgspec.DecodeError as error:
        raise RefusedError(f"The body is not a {what}: {error}", _path(str(error)) or None) from None


def check_metadata(metadata: Mapping[str, str] | None) -> None:
    """Raises RefusedError."""
    if metadata is not None and len(metadata) > MAX_METADATA:
        raise RefusedError(f"`metadata` has {len(metadata)} keys, and may have {MAX_METADATA}.", "metadata")
    for key, value in (metadata or {}).items():
        if "\0" in key + value:
            raise RefusedError("`metadata` takes no U+0000.", "metadata")
        if len(key) > MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE:
            raise RefusedError(
                f"`metadata` takes keys of {MAX_METADATA_KEY} and values of {MAX_METADATA_VALUE} characters at most.",
                "metadata",
            )


def expiry_s(anchor: str, seconds: int, param: str) -> int:
    """Raises RefusedError."""
    if anchor != "created_at":
        raise RefusedError(f"`{param}.anchor` must be created_at.", f"{param}.anchor")
    if not MIN_EXPIRY_S <= seconds <= MAX_EXPIRY_S:
        raise RefusedError(f"`{param}.seconds` must be from {MIN_EXPIRY_S} to {MAX_EXPIRY_S}.", f"{param}.seconds")
    return seconds


def one_of(param: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise RefusedError(f"`{param}` is {value[:100]!r}, and must be one of {', '.join(allowed)}.", param)
