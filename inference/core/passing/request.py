"""A request as its client sent it, for servers that read it by themselves."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from inference.contract.stages import Operation
from inference.core.openai import errors
from inference.core.openai.shape import takes_long
from inference.core.passing import canonical, json_members, media, multipart, parts
from inference.core.passing.inputs import Inputs, inputs_of
from inference.core.passing.json_members import Member
from inference.core.passing.multipart import Form
from inference.core.passing.routes import ROUTES, prompt_of
from inference.core.passing.texts import is_true, texts_of, token_ids, tokens_of, written
from inference.core.question import GENERATION

Changes = Mapping[str, bytes | None]
"""Members of the body that get another value (JSON), or none."""

_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_IDS = ("prompt", "input")  # where token ids may be
_BYTES_PER_TOKEN = 4
HEAD_BYTES = 512 << 10
"""Of a prompt, by which prompts that begin alike are known."""
_ALWAYS_THE_SAME = frozenset(("embeddings",))
MAX_MEMBERS = 1024
MAX_UNKNOWN = 64
"""Parameters of one request that are left out: each is named to its client."""
_decode = msgspec.json.decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.encode
_NOTHING: Changes = {}
(_BACKSLASH,) = b"\\"


class _Known:
    """What has been worked out of a body, for the request and for what is made of it by changes. None: not yet."""

    is_long = False
    canonical: bytes | None = None
    texts: tuple[str, ...] | None = None
    tokens: int | None = None
    images: int | None = None
    choices: int | None = None
    several: bool | None = None
    head: bytes | None = None
    digest: bytes | None = None
    members: list[Member] | None = None
    inputs: Inputs | None = None

    def __init__(self, form: Form | None = None) -> None:
        self.form = form  # where the body is one


class Passed:
    """`document` is what `body` says, and `changes` what of it the gateway changes. Only few of its members mean anything
    to the gateway; those of a wrong type mean nothing, because the server refuses them. Of a long body, whatever takes long is
    worked out by `read_through`.
    """

    __slots__ = (
        "_known",
        "body",
        "changes",
        "content_type",
        "document",
        "operation",
        "path",
        "remote_media",
    )

    def __init__(
        self,
        path: str,
        operation: Operation,
        body: bytes,
        document: dict[str, Any],
        content_type: str = "application/json",
        changes: Changes = _NOTHING,
    ) -> None:
        self.path, self.operation, self.body, self.document = path, operation, body, document
        self.content_type = content_type
        self.changes = changes
        self.remote_media: list[str] = []  # URLs that the server would fetch
        self._known = _Known()

    def but(self, changes: Changes) -> "Passed":
        """The same with further changes."""
        document, known = self.document, self._known
        if None in changes.values():
            document = {name: value for name, value in document.items() if changes.get(name, b"") is not None}
            known = known if known.is_long else _Known(known.form)
        other = Passed(self.path, self.operation, self.body, document, self.content_type, {**self.changes, **changes})
        other._known = known
        return other

    def rendered(self, additions: Mapping[str, bytes]) -> bytes:
        """The body that a server gets."""
        changes, its_form = {**self.changes, **additions}, self._known.form
        if its_form is not None:
            return multipart.changed(self.body, its_form, changes)
        if additions and not self.changes and self.document.keys().isdisjoint(additions):
            return json_members.extended(self.body, additions)
        return json_members.changed(self.body, changes, self._known.members) if changes else self.body

    @property
    def model(self) -> str:
        return str(self.document["model"])

    @property
    def streams(self) -> bool:
        return is_true(self.document.get("stream"))

    @property
    def max_tokens(self) -> int | None:
        """The limit on output tokens, as it is sent; None where there is none."""
        for name in _LIMITS:
            value = _decode(changed) if (changed := self.changes.get(name)) else self.document.get(name)
            if (tokens := tokens_of(value)) is not None:
                return tokens
        return None

    @property
    def names_limit(self) -> bool:
        """Whether the client names a limit on output tokens, be it one that its server refuses."""
        return any(self.document.get(name) is not None for name in _LIMITS)

    @property
    def limits(self) -> dict[str, int]:
        """The limits on output tokens that the client has set, by their names."""
        return {name: tokens for name in _LIMITS if (tokens := tokens_of(self.document.get(name))) is not None}

    def at_most(self, tokens: int) -> "Passed":
        """With at most so many output tokens."""
        limit, given = b"%d" % tokens, self.limits
        above = [name for name, wanted in given.items() if wanted > tokens]
        return self.but(dict.fromkeys(above if given else (self._limit,), limit))

    @property
    def _limit(self) -> str:
        """The name of a limit that the client has not set."""
        return "max_output_tokens" if self.path == "/v1/responses" else "max_tokens"

    @property
    def choices(self) -> int:
        """How many choices its answer has, as far as that can be said."""
        known = self._known
        if known.choices is None:
            n, prompts = tokens_of(self.document.get("n")), self.document.get("prompt")
            many = len(prompts) if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int) else 1
            known.choices = many * (n or 1)
        return known.choices

    @property
    def deterministic(self) -> bool:
        """Whether the same model gives the same answer again."""
        document = self.document
        return (
            self.operation in _ALWAYS_THE_SAME or document.get("temperature") == 0 or document.get("seed") is not None
        )

    @property
    def images(self) -> int:
        """How many images its messages have."""
        known = self._known
        if known.images is None:
            known.images = media.images(self.document.get("messages") or self.document.get("input"))
        return known.images

    @property
    def is_one_prompt(self) -> bool:
        """Whether it has one prompt for the model to take whole. A ranking and a list to embed have many, and a request for tokens none."""
        known = self._known
        if known.several is None:
            many = self.document.get("input") if self.operation == "embeddings" else None
            known.several = self.path in ROUTES or (
                isinstance(many, list) and len(many) > 1 and isinstance(many[0], str | list)
            )
        return not known.several

    @property
    def inputs(self) -> Inputs | None:
        """Its inputs, where each has an answer of its own. Of a long body they are known once that is read through."""
        known = self._known
        if known.inputs is None and not known.is_long and "input" not in self.changes:
            known.inputs = inputs_of(self.operation, self.document)
        return known.inputs

    def with_inputs(self, numbers: Sequence[int]) -> "Passed":
        """The same for those of its inputs alone."""
        at, elements = self._elements()
        body = b"".join(
            (self.body[: at.value], b"[", b",".join([elements[it] for it in numbers]), b"]", self.body[at.end :])
        )
        other = read(self.path, self.operation, body)
        other.changes = self.changes
        if other._known.is_long:
            other.read_through()
        return other

    def inputs_at(self, numbers: Sequence[int]) -> list[Any]:
        """What those of its inputs say."""
        _, elements = self._elements()
        return [_decode(elements[it]) for it in numbers]

    def _elements(self) -> tuple[Member, list[msgspec.Raw]]:
        at = next(it for it in self._known.members or json_members.members(self.body) if it.name == "input")
        return at, _decode_elements(self.body[at.value : at.end])

    @property
    def prompt_param(self) -> str:
        """The parameter that holds the prompt."""
        names = ("messages", "prompt", "input", *prompt_of(self.path))
        return next((name for name in names if name in self.document), "input")

    @property
    def canonical(self) -> bytes:
        """What is hashed: the question, and what is changed of it."""
        known = self._known
        if known.canonical is None:
            # White space counts, also where the model goes on with what a person wrote.
            exact = self.operation not in GENERATION or is_true(self.document.get("continue_final_message"))
            hashed = canonical.digest if known.is_long else canonical.canonical
            try:
                known.canonical = hashed(self.path, self.document, exact=exact)
            except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or a number beyond 64 bits
                known.canonical = blake2b(self.path.encode() + b"\0" + self.body).digest()
        changes = sorted((name, value) for name, value in self.changes.items() if value is not None)
        return known.canonical + _encode(changes) if changes else known.canonical

    def read_through(self) -> None:
        """Work out what takes long with a long body, and keep no more of it than that."""
        known = self._known
        _ = self.canonical, self.texts, self.prompt_tokens, self.images, self.choices, self.head, self.prompt_digest
        _ = self.is_one_prompt
        known.inputs = inputs_of(self.operation, self.document) if "input" not in self.changes else None
        known.members = json_members.members(self.body) if known.form is None else None
        heavy = [name for name, it in self.document.items() if isinstance(it, list | dict) and name != "stream_options"]
        values = [self.document[name] for name in heavy]
        self.document |= dict.fromkeys(heavy)
        parts.let_go(values)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of its prompt, in their order. Images, tools and token ids are none."""
        known = self._known
        if known.texts is None:
            known.texts = tuple(text for name in prompt_of(self.path) for text in texts_of(self.document.get(name)))
        return known.texts

    @property
    def prompt_tokens(self) -> int:
        """About how many tokens its prompt has: a fourth of its bytes as UTF-8, or the number of its token ids. It is known
        before a tokenizer has counted, which only a request that the cache does not have waits for. Images and tools count
        for nothing.
        """
        known = self._known
        if known.tokens is None:
            ids = sum(token_ids(self.document.get(name)) for name in _IDS if name in prompt_of(self.path))
            known.tokens = ids + sum(len(text.encode("utf-8", "replace")) for text in self.texts) // _BYTES_PER_TOKEN
        return known.tokens

    @property
    def head(self) -> bytes:
        """The beginning of the prompt as templates lay it out, so that prompts that begin alike have a common beginning."""
        known = self._known
        if known.head is None:
            head, size = [], 0
            for part in self._prompt_parts():
                head.append(part)
                size += len(part)
                if size >= HEAD_BYTES:
                    break
            known.head = b"".join(head)[:HEAD_BYTES]
        return known.head

    @property
    def prompt_digest(self) -> bytes:
        """What its prompt is known by."""
        known = self._known
        if known.digest is None:
            digest = blake2b(digest_size=16)
            for part in self._prompt_parts():
                digest.update(len(part).to_bytes(8, "little") + part)
            known.digest = digest.digest()
        return known.digest

    def _prompt_parts(self) -> Iterator[bytes]:
        """The prompt in the order in which templates lay it out."""
        document = self.document
        for name in ("tools", "system", "instructions", "messages", "prompt", "input"):
            value = document.get(name)
            for part in value if isinstance(value, list) else () if value is None else (value,):
                yield written(part)

    def as_it_stands(self, names: Collection[str]) -> dict[str, msgspec.Raw]:
        """These of its members, as far as it has them."""
        there = self._known.members or json_members.members(self.body)
        return {it.name: msgspec.Raw(self.body[it.value : it.end]) for it in there if it.name in names}


def kept_to(passed: Passed, known: Collection[str]) -> tuple[Passed, list[str]]:
    """The request without the parameters that are not `known`, and their names. Raises ApiError where these are too many to name."""
    unknown = [name for name in passed.document if name not in known]
    if len(unknown) > MAX_UNKNOWN:
        raise errors.invalid(f"{len(unknown)} parameters are not known, at most {MAX_UNKNOWN} are left out: send none.")
    return (passed.but(dict.fromkeys(unknown)), unknown) if unknown else (passed, unknown)


def read(path: str, operation: Operation, body: bytes) -> Passed:
    """The request in a body of JSON. Raises ApiError."""
    is_long = takes_long(body)
    try:
        document = parts.decode(body) if is_long else _decode(body)
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors too
        document = _as_python_reads_it(body, str(error))
    if not isinstance(document, dict):
        raise errors.invalid("The body is no JSON object.", code="invalid_json")
    if len(document) > MAX_MEMBERS:
        raise errors.invalid(f"The body has more than {MAX_MEMBERS:,} parameters: send less.", code="body_too_complex")
    _check_model(document)
    request = Passed(path, operation, body, document)
    request._known.is_long = is_long
    # Without one of them a body has no URL that a server would fetch: a name may be written with escapes. (`bytes in bytes` takes longer.)
    if body.rfind(b'url"') >= 0 or (_BACKSLASH in body and body.rfind(b"\\u00") >= 0):
        names = ("messages", "input", "system", *(prompt_of(path) if path in ROUTES else ()))
        request.remote_media = media.remote(document, names)
    return request


def read_form(path: str, operation: Operation, body: bytes, content_type: str) -> Passed:
    """The request in a form. Raises ApiError."""
    known = multipart.read(body, content_type)
    document = multipart.document(body, known)
    _check_model(document)
    request = Passed(path, operation, body, document, content_type)
    request._known.form, request._known.is_long = known, takes_long(body)
    return request


def _check_model(document: dict[str, Any]) -> None:
    """Raises ApiError."""
    model = document.get("model")
    if model is None:
        raise errors.invalid("Missing required parameter: 'model'.", "model", "missing_required_parameter")
    if not isinstance(model, str) or not (model.isascii() or _is_utf8(model)):
        raise errors.invalid("`model` must be a text.", "model", "invalid_type")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _as_python_reads_it(body: bytes, reason: str) -> Any:
    """What model servers in Python take beyond JSON, such as half a surrogate pair, or NaN. Raises ApiError, also for UTF-16 and
    UTF-32, in which no member could be changed on the way.
    """
    try:
        return json.loads(body.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        raise errors.invalid(f"The body is not JSON: {reason}.", code="invalid_json") from None


def made(path: str, operation: Operation, document: dict[str, Any]) -> Passed:
    """A request of the gateway's own."""
    return Passed(path, operation, _encode(document), document)
