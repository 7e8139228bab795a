"""Takes the text out of a response that is, but for its text, the same bytes as one before it, as nearly all are.

Reading a ModelStreamInferResponse with protobuf takes some 8 µs, most of it for Python objects of its parts; this
and the making of its event take three.
"""

from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb  # type: ignore[import-untyped]

from inference.core.protobuf import field, read_varint, varint

_INFER_RESPONSE = 0x12  # field 2 of ModelStreamInferResponse
_ID = 0x1A  # field 3 of ModelInferResponse
_CONTENTS = 0x32  # field 6 of ModelInferResponse: raw_output_contents
_LENGTH_BYTES = 4  # before the text, in its content


class Template:
    """What is before the text's content in the inner message, and what is after it."""

    __slots__ = ("_after", "_before", "_lengths", "_starts")

    def __init__(self, before: bytes, after: bytes, lengths: dict[int, tuple[bytes, bytes]] | None = None) -> None:
        self._before = before
        self._after = after
        self._lengths = (
            {} if lengths is None else lengths
        )  # of the inner message and the content, by that of a response
        self._starts: dict[
            int, tuple[bytes, int]
        ] = {}  # what responses of a length begin with, and where their text does

    def of_request(self, before: bytes, now: bytes) -> "Template":
        """The same of the answer to another request. The ids are as long."""
        return Template(self._before.replace(field(_ID, before), field(_ID, now), 1), self._after, self._lengths)

    def text(self, raw: bytes) -> bytes | None:
        """The text of a response; None if more than its text differs."""
        start, begin = self._starts.get(len(raw)) or self._start(len(raw))
        if raw.startswith(start) and raw.endswith(self._after):
            return raw[begin : len(raw) - len(self._after)]
        return None

    def _start(self, size: int) -> tuple[bytes, int]:
        """Of a shorter response than there can be, what no response begins with."""
        lengths = self._lengths.get(size)
        if lengths is None:
            inner = _payload(size - 1)
            content = _payload(inner - len(self._before) - len(self._after))
            lengths = b"\0", b""
            if content >= _LENGTH_BYTES:
                lengths = bytes((_INFER_RESPONSE,)) + varint(inner), varint(content)
            self._lengths[size] = lengths
        start = lengths[0] + self._before + lengths[1]
        self._starts[size] = known = start, len(start) + _LENGTH_BYTES
        return known


class Kept(NamedTuple):
    """The template of a response to the request `request_id`, and what such responses say beside their text: the choice, and numbers of
    tokens, -1 where they do not say them.
    """

    template: Template
    request_id: bytes
    choice: int
    tokens: int
    prompt_tokens: int


def _payload(size: int) -> int:
    """How long a payload is that has `size` bytes with its length before it; -1 if there is none."""
    return next((size - width for width in range(1, 6) if size > width and len(varint(size - width)) == width), -1)


def template_of(raw: bytes, contents: Sequence[bytes], text_at: int) -> Template | None:
    """The template of a response whose contents these are, with the text's in place `text_at`; None where they do not come last,
    as protobuf's own encoders write them.
    """
    if not raw or raw[0] != _INFER_RESPONSE:
        return None
    size, start = read_varint(raw, 1)
    fields = [field(_CONTENTS, content) for content in contents]
    tail = b"".join(fields)
    if start + size != len(raw) or not raw.endswith(tail):
        return None
    head = raw[start : len(raw) - len(tail)]
    try:
        if pb.ModelInferResponse.FromString(head).raw_output_contents:
            return None
    except DecodeError:
        return None
    return Template(head + b"".join([*fields[:text_at], bytes((_CONTENTS,))]), b"".join(fields[text_at + 1 :]))
