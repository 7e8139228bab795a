"""The lines of output and error files, and what they cost."""

import hashlib
from typing import Any, NamedTuple

import msgspec

from controlplane.lane.core.lines import checked
from controlplane.lane.core.states import FAILED, INCOMPLETE, MESSAGES
from inference.contract.lenient import reading


class Usage(NamedTuple):
    """Tokens. The detailed ones are part of the others."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0

    def plus(self, other: "Usage") -> "Usage":
        return Usage(*(mine + its for mine, its in zip(self, other, strict=True)))


class _Answer(msgspec.Struct):
    usage: dict[str, Any] | None = None
    status: Any = None


_answer = reading(_Answer)
_raw = msgspec.json.Decoder(msgspec.Raw)
_MAX_COUNT = (1 << 31) - 1  # of tokens: a larger one is no count


def _on_a_line(body: bytes) -> msgspec.Raw | str:
    """The JSON without line ends; what is none as a text."""
    try:
        checked(body, _raw.decode)
        return msgspec.Raw(msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body)
    except msgspec.DecodeError:
        return body.decode("utf-8", "replace")


def usage_of(body: bytes) -> Usage:
    """Of an answer of any route; nothing where it says nothing."""
    try:
        said = _answer(body).usage or {}
    except ValueError:
        return Usage()
    return Usage(
        _count(said, "input_tokens") or _count(said, "prompt_tokens"),
        _count(said.get("input_tokens_details") or said.get("prompt_tokens_details"), "cached_tokens"),
        _count(said, "output_tokens") or _count(said, "completion_tokens"),
        _count(said.get("output_tokens_details") or said.get("completion_tokens_details"), "reasoning_tokens"),
    )


def ends_as(body: bytes) -> str:
    """What a response is that has ended otherwise than as it should, or is none, though it was answered with 200; empty where it has
    not.
    """
    try:
        said = _answer(body).status
    except ValueError:
        return FAILED
    return said if said in (INCOMPLETE, FAILED) else ""


def _count(part: object, name: str) -> int:
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MAX_COUNT else 0


def request_id(batch: str, number: int) -> str:
    """The same whichever worker writes it."""
    return f"batch_req_{_digest(f'{batch}:{number}')}"


def output_file_id(batch: str) -> str:
    return f"file-{_digest(f'{batch}:output')}"


def error_file_id(batch: str) -> str:
    return f"file-{_digest(f'{batch}:error')}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Written(msgspec.Struct):
    custom_id: str


_written = msgspec.json.Decoder(_Written)


def custom_id(text: bytes) -> str:
    """Of a line of an output or error file."""
    return _written.decode(text).custom_id


def answered(batch: str, number: int, custom_id: str, status: int, request: str, body: bytes) -> bytes:
    """The line of an answer. A body that is no JSON becomes a text."""
    response = {"status_code": status, "request_id": request, "body": _on_a_line(body)}
    return _line(batch, number, custom_id, response, None)


def unanswered(batch: str, number: int, custom_id: str, code: str) -> bytes:
    return _line(batch, number, custom_id, None, {"code": code, "message": MESSAGES[code]})


def _line(batch: str, number: int, custom_id: str, response: object, error: object) -> bytes:
    line = {"id": request_id(batch, number), "custom_id": custom_id, "response": response, "error": error}
    return msgspec.json.encode(line) + b"\n"
