"""The heads of requests and answers over HTTP/2: RFC 9113, 8, and their fields in HPACK (RFC 7541)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from inference.core import http2
from inference.core.openai import errors

MAX_FIELDS = 128
MAX_HEAD_BYTES = 64 << 10  # as RFC 9113, 6.5.2 counts them: 32 more for each field
_FIELD_EXTRA_BYTES = 32
_NAME = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]+")
_BAD_VALUE = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
_METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_AUTHORITY = re.compile(rb"[\w.~!$&'()*+,;=:%\[\]-]*", re.ASCII)  # RFC 9110, 7.2
_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
# Of two such fields, two readers may use different ones.
_ONCE = frozenset((b"authorization", b"content-length", b"host"))

Fields = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class RequestHead:
    """`length` is the body's, in bytes, as the client says it; -1 where it does not. `size` is the head's, in bytes."""

    method: str
    path: str
    headers: dict[bytes, bytes]
    length: int
    size: int


def read_request(fields: Fields) -> RequestHead:
    """The head of a request. Raises ApiError: a 400 where the request is malformed (RFC 9113, 8.1.1)."""
    pseudo: dict[bytes, bytes] = {}
    headers: dict[bytes, bytes] = {}
    count = size = 0
    for name, value in fields:
        count += 1
        size += len(name) + len(value) + _FIELD_EXTRA_BYTES
        if count > MAX_FIELDS or size > MAX_HEAD_BYTES:
            raise errors.headers_too_large(MAX_HEAD_BYTES, MAX_FIELDS)
        if name[:1] == b":":
            if name not in _PSEUDO or name in pseudo or headers:
                raise _malformed(f"The pseudo-header {_shown(name)} is unknown, sent twice, or after other headers.")
            pseudo[name] = value
            continue
        if name in headers and name in _ONCE:
            raise _malformed(f"The header {_shown(name)} is sent twice.")
        _check(name, value)
        headers[name] = value
    method = pseudo.get(b":method", b"")
    if not _METHOD.fullmatch(method):
        raise _malformed(f"The pseudo-header :method is {_shown(method)}: send one method, such as GET.")
    if method == b"CONNECT":
        raise errors.method_not_allowed("CONNECT", _shown(pseudo.get(b":authority", b"")), "GET, HEAD, POST")
    path = pseudo.get(b":path", b"")
    if b":scheme" not in pseudo or not (path[:1] == b"/" or path == b"*") or _BAD_VALUE.search(path):
        raise _malformed(f"The pseudo-headers :scheme and :path are needed, and :path is {_shown(path)}.")
    host, authority = headers.get(b"host"), pseudo.get(b":authority", headers.get(b"host"))
    if not authority or not _AUTHORITY.fullmatch(authority) or host not in (None, authority):
        raise _malformed("One of :authority and Host is needed, with a host's name and port; both must be the same.")
    where = path.split(b"?", 1)[0].decode("ascii", "replace")
    return RequestHead(method.decode("ascii"), where, headers, _length(headers), size)


def check_settings(payload: bytes) -> list[tuple[int, int]]:
    """The settings of a client, each within its limits (RFC 9113, 6.5.2). Raises ProtocolError."""
    values = http2.parse_settings(payload)
    for key, value in values:
        if key == http2.INITIAL_WINDOW_SIZE and value > http2.MAX_WINDOW:
            raise http2.ProtocolError(f"INITIAL_WINDOW_SIZE is {value}", http2.FLOW_CONTROL_ERROR)
        if (key == http2.ENABLE_PUSH and value > 1) or (
            key == http2.MAX_FRAME_SIZE and not http2.DEFAULT_MAX_FRAME <= value < 1 << 24
        ):
            raise http2.ProtocolError(f"the setting {key} is {value}")
    return values


def check_trailers(fields: Fields) -> None:
    """Trailers are ignored, but they have to be well-formed (RFC 9113, 8.1). Raises ApiError."""
    for name, value in fields:
        _check(name, value)


def _check(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name):
        raise _malformed(f"{_shown(name)} is not a name of a header over HTTP/2, which is in lower case.")
    if _BAD_VALUE.search(value):
        raise _malformed(f"The value of the header {_shown(name)} has a line end, a NUL, or white space around it.")
    if name in _OF_CONNECTIONS or (name == b"te" and value != b"trailers"):
        raise _malformed(f"The header {_shown(name)} has no place in HTTP/2.")


def _length(headers: dict[bytes, bytes]) -> int:
    said = headers.get(b"content-length")
    if said is None:
        return -1
    if not said.isdigit() or len(said) > 18:
        raise _malformed(f"The header content-length is {_shown(said)}: it has to be the body's length in bytes.")
    return int(said)


def _malformed(message: str) -> errors.ApiError:
    return errors.invalid(message, code="bad_request")


def _shown(value: bytes) -> str:
    return value[:100].decode("ascii", "backslashreplace")


# Answers ------------------------------------------------------------------------------------------

# RFC 7541, appendix A: whole fields, and names.
_STATUSES = {200: b"\x88", 204: b"\x89", 206: b"\x8a", 304: b"\x8b", 400: b"\x8c", 404: b"\x8d", 500: b"\x8e"}
_NAMES = {b":status": 8, b"allow": 22, b"content-length": 28, b"content-type": 31, b"date": 33, b"retry-after": 53}
NO_TABLE = b"\x20"  # sets the size of the dynamic table to 0: no answer uses it, whatever the client allows


def status_field(status: int) -> bytes:
    return _STATUSES.get(status) or field(b":status", b"%d" % status)


def field(name: bytes, value: bytes) -> bytes:
    """One field, literal without indexing, so that what it means does not depend on what was sent before."""
    size = len(value)
    if size < 127:
        return b"%s%c%s" % (_name(name), size, value)
    return _name(name) + http2.integer(size, 7, 0) + value


@lru_cache(maxsize=256)
def _name(name: bytes) -> bytes:
    known = _NAMES.get(name)
    if known is not None:
        return http2.integer(known, 4, 0)
    return b"\x00" + http2.integer(len(name), 7, 0) + name.lower()
