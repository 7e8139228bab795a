"""Reads requests from bytes with httptools, within the limits of one request."""

import re
import time
from collections.abc import Callable

import httptools

from inference.core.openai import errors
from inference.core.openai.errors import ApiError
from inference.wires.http.exchange import Request
from inference.wires.http.incoming import Incoming

_MAX_HEAD_BYTES = 64 << 10
_MAX_HEADERS = 128
_HOST = re.compile(rb"[\w.~!$&'()*+,;=:%\[\]-]*", re.ASCII)  # RFC 9110, 7.2: a host's name or address, and a port
_ABSOLUTE = re.compile(rb"(?i)https?://[^/?]*")  # RFC 9112, 3.2.2
_COUNT_BYTES = 4 << 10  # less is not counted: there are few such requests at once, and counting takes time
_UNKNOWN_BODY_BYTES = 64 << 10  # longer bodies are kept only for clients with a known key
_ONCE = frozenset(
    (b"authorization", b"x-api-key", b"host", b"transfer-encoding")
)  # of two such headers, two readers may use different ones


class Reader:
    """Reads the requests of one connection.

    `admit` gets the headers of a request with a large body, and raises ApiError to refuse it. `hold` gets numbers of
    bytes that are kept. `go_on` is called when a client waits until it may send its body. `received` gets each request: once it is
    whole, or after its head where `streams` says, by method and path, how many bytes of its body are handed on while they come. `pace` is
    called when more or fewer of these wait.
    """

    def __init__(
        self,
        max_body_bytes: int,
        admit: Callable[[dict[bytes, bytes]], object],
        hold: Callable[[int], None],
        go_on: Callable[[], None],
        received: Callable[[Request], None],
        streams: Callable[[str, str], int] = lambda _method, _path: 0,
        pace: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_body_bytes = max_body_bytes
        self._admit, self._hold, self._go_on, self._received = admit, hold, go_on, received
        self._streams, self._pace = streams, pace
        self._parser = httptools.HttpRequestParser(self)
        self._version = "1.1"
        self.over = False  # after the last request of the connection
        self.since_s = time.monotonic()  # when the request being read began
        self.reading = True  # the first request is expected at once
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._method = self._path = self._query = ""
        self._headers: dict[bytes, bytes] = {}
        self._silent_bytes = 0  # received since a head, a body's part or a request began or ended
        self._body: bytes | bytearray = b""
        self.in_head = True
        self._kept_bytes = self._counted_bytes = 0
        self._upgrading = False
        self.incoming: Incoming | None = None

    @property
    def path(self) -> str:
        """Of the request being read, as far as it is known."""
        return self._path or self._target()[0]

    def feed(self, data: bytes) -> bytes:
        """Parse. Returns bytes to be parsed again before any others, as a rule none. Raises ApiError."""
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ or error) from None
        except httptools.HttpParserError as error:
            if not self.over:  # to the parser, bytes after the last request are an error
                raise errors.invalid(f"Not an HTTP/1.1 request: {error}", code="bad_request") from None
        if self.reading and self.in_head and self._parser.get_method() == b"PRI":
            # The parser would wait for the rest of HTTP/2's preface.
            raise errors.invalid("PRI begins HTTP/2, and is no method of HTTP/1.1.", code="bad_request")
        if self._silent_bytes > _MAX_HEAD_BYTES and not self.over:
            raise _headers_too_large()
        return b""

    def _without_upgrade(self) -> bytes:
        """Ignore the `Upgrade` header, as RFC 9110, 7.8 allows.

        The parser stops at such a head and would take the body for the next request, so a new parser reads the same
        head without the field.
        """
        kept = ((name, value) for name, value in self._headers.items() if name != b"upgrade")
        start = b"%s %s HTTP/%s\r\n" % (self._parser.get_method(), self._url, self._version.encode())
        self._parser = httptools.HttpRequestParser(self)
        self.in_head = True
        return start + b"".join(b"%s: %s\r\n" % header for header in kept) + b"\r\n"

    def _keep(self, size: int) -> None:
        self._kept_bytes += size
        new = self._kept_bytes - self._counted_bytes
        if new >= _COUNT_BYTES:
            self._counted_bytes += new
            self._hold(new)

    # httptools ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reset()
        self.reading = True
        self.since_s = time.monotonic()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head:
            return  # a trailer: it may be ignored (RFC 9110, 6.5.1), and must not count as a header
        headers, name = self._headers, name.lower()
        if name in headers:
            if name in _ONCE:
                raise errors.invalid(f"The header {name.decode()} is sent twice.", code="bad_request")
        elif len(headers) >= _MAX_HEADERS:
            raise _headers_too_large()
        headers[name] = value

    def on_headers_complete(self) -> None:
        self.in_head = False
        head_bytes, self._silent_bytes = self._silent_bytes, 0
        self._version = version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise errors.wrong_version(version)
        headers = self._headers
        if b"transfer-encoding" in headers:
            if version == "1.0":
                raise errors.invalid("HTTP/1.0 has no Transfer-Encoding.", code="bad_request")
            if headers[b"transfer-encoding"].lower() != b"chunked":
                raise errors.unknown_coding()
        if not _HOST.fullmatch(headers.get(b"host", b"" if version == "1.0" else b"?")):
            raise errors.invalid("HTTP/1.1 needs a Host header with a host's name and port.", code="bad_request")
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                raise errors.method_not_allowed("CONNECT", self._url.decode("ascii", "replace"), "GET, HEAD, POST")
            self._upgrading = True
            return
        self._keep(head_bytes)
        length = headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() else 0
        self._method = self._parser.get_method().decode("ascii")
        self._path, self._query = self._target()
        streamed = self._streams(self._method, self._path)
        if size > (streamed or self._max_body_bytes):
            raise errors.body_too_large(streamed or self._max_body_bytes)
        if size > _UNKNOWN_BODY_BYTES or streamed:
            self._admit(headers)
        if headers.get(b"expect", b"").lower() == b"100-continue" and version == "1.1":
            self._go_on()
        if streamed:
            self.incoming = Incoming(streamed, self._hold, self._pace)
            self._deliver(b"")

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
        if self.incoming is not None:
            if self.incoming.size + len(body) > self.incoming.most:
                raise errors.body_too_large(self.incoming.most)
            self.incoming.feed(body)
            return
        before = len(self._body)
        after = before + len(body)
        if after > self._max_body_bytes:
            raise errors.body_too_large(self._max_body_bytes)
        if before <= _UNKNOWN_BODY_BYTES < after:
            self._admit(self._headers)
        self._keep(len(body))
        if not before:
            self._body = body
        elif isinstance(self._body, bytearray):
            self._body += body
        else:
            self._body = bytearray(self._body) + body

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        self.reading = False
        self._silent_bytes, self.in_head = 0, True
        body = self._body if isinstance(self._body, bytes) else bytes(self._body)
        self._body = b""
        self.over = not self._parser.should_keep_alive()
        if self.incoming is not None:
            self.incoming.end()
        else:
            self._deliver(body)

    def _deliver(self, body: bytes) -> None:
        self._received(
            Request(
                self._method,
                self._path,
                self._headers,
                body,
                time.perf_counter_ns(),
                self._parser.should_keep_alive(),
                self._version,
                self._counted_bytes,
                self._query,
                self.incoming,
            )
        )

    def _target(self) -> tuple[str, str]:
        """Path and query."""
        url = self._url
        if url[:1] != b"/":
            url = _ABSOLUTE.sub(b"", url, count=1) or b"/"
        path, _, query = url.partition(b"?")
        return path.decode("ascii", "replace"), query.decode("ascii", "replace")


def _headers_too_large() -> ApiError:
    return errors.headers_too_large(_MAX_HEAD_BYTES, _MAX_HEADERS)
