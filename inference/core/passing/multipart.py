"""Reads bodies of `multipart/form-data` (RFC 7578), and changes some of their fields. All else of them stays as it came."""

from collections.abc import Mapping
from email.message import Message
from email.parser import HeaderParser
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from inference.core.openai import errors
from inference.core.passing.texts import is_true

MAX_PARTS = 256
_MAX_HEAD_BYTES = 8 << 10  # the headers of one part
_NUMBERS = frozenset(("temperature", "seed"))


class Part(NamedTuple):
    """From `start`, where its delimiter is, to `end`, after its value. `filename` is None for a plain field."""

    name: str
    filename: str | None
    start: int
    value: int
    end: int


class Form(NamedTuple):
    """`end` is where the last delimiter is."""

    delimiter: bytes
    parts: tuple[Part, ...]
    end: int


def read(body: bytes, content_type: str) -> Form:
    """Raises ApiError."""
    said = Message()
    said["Content-Type"] = content_type
    boundary = said.get_boundary()
    if said.get_content_type() != "multipart/form-data" or not boundary:
        raise _invalid("The body is no form: send `Content-Type: multipart/form-data` with its boundary")
    delimiter = b"--" + boundary.encode("latin-1", "replace")
    parts = list[Part]()
    at = 0 if body.startswith(delimiter) else body.find(b"\r\n" + delimiter) + 2
    if at == 1:
        raise _invalid("The form does not have its boundary")
    while not body.startswith(b"--", at + len(delimiter)):
        if len(parts) == MAX_PARTS:
            raise _invalid(f"The form has more than {MAX_PARTS} parts: send less")
        line = body.find(b"\r\n", at + len(delimiter), at + len(delimiter) + _MAX_HEAD_BYTES)
        head = body.find(b"\r\n\r\n", line, line + _MAX_HEAD_BYTES) if line >= 0 else -1
        end = body.find(b"\r\n" + delimiter, head + 4) if head >= 0 else -1
        if body.startswith(delimiter, head + 4) and head >= 0:  # some read a delimiter there, and others a value
            raise _invalid(f"Part {len(parts) + 1} of the form begins with its boundary: choose another boundary")
        if end < 0 or body[at + len(delimiter) : line].strip(b" \t"):
            raise _invalid(f"Part {len(parts) + 1} of the form has no end, no headers, or too long ones")
        headers = HeaderParser().parsestr(body[line + 2 : head].decode("utf-8", "replace"))
        name = headers.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise _invalid(f"Part {len(parts) + 1} of the form has no name")
        parts.append(Part(name, headers.get_filename(), at, head + 4, end))
        at = end + 2
    return Form(delimiter, tuple(parts), at)


def document(body: bytes, form: Form) -> dict[str, Any]:
    """What the fields say, as a body of JSON would. Of a file it is known what it is called, and by its digest what it holds."""
    said = dict[str, Any]()
    for part in form.parts:
        value: Any = body[part.value : part.end]
        if part.filename is not None:
            value = [part.filename, blake2b(value, digest_size=16).hexdigest()]
        else:
            value = _value(part.name, value.decode("utf-8", "surrogateescape"))
        if part.name not in said:
            said[part.name] = value
        elif part.name.endswith("[]"):
            before = said[part.name]
            said[part.name] = [*(before if isinstance(before, list) else [before]), value]
        else:
            raise _invalid(f"The form has `{part.name[:100]}` twice")
    return said


def changed(body: bytes, form: Form, changes: Mapping[str, bytes | None]) -> bytes:
    """The body with other values (JSON) of these fields, or without them."""
    kept, at, left = list[bytes](), 0, dict(changes)
    for part in form.parts:
        if part.name not in changes:
            continue
        new = changes[part.name]
        left.pop(part.name, None)
        if new is None:
            kept.append(body[at : part.start])
            at = part.end + 2
        else:
            kept += (body[at : part.value], _text(new))
            at = part.end
    kept.append(body[at : form.end])
    for name, new in left.items():
        if new is not None:
            head = b'%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n' % (form.delimiter, name.encode())
            kept += (head, _text(new), b"\r\n")
    return b"".join((*kept, body[form.end :]))


def _value(name: str, text: str) -> Any:
    if name == "stream":
        return is_true(text.strip())
    if name in _NUMBERS:
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _text(value: bytes) -> bytes:
    """As a field says it."""
    said = msgspec.json.decode(value)
    return said.encode() if isinstance(said, str) else value


def _invalid(what: str) -> errors.ApiError:
    return errors.invalid(f"{what}.", code="invalid_form")
