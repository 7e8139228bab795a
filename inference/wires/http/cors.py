"""Lets pages of other origins call the API from a browser (https://fetch.spec.whatwg.org/#http-cors-protocol)."""

import re

from inference.wires.http.exchange import Headers

ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|\*")
_FIELD_NAMES = re.compile(rb"[\w ,!#$%&'*+.^`|~-]{0,4096}", re.ASCII)
_KEPT_S = b"7200"  # browsers keep no answer for longer


class Cors:
    """`origins` are such as `https://app.example.com`; `*` is any. A key is sent as a header by the page itself: cookies and other
    things that a browser adds by itself are never sent for.
    """

    def __init__(self, origins: frozenset[str]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    def headers(self, sent: dict[bytes, bytes]) -> Headers:
        """What an answer carries so that the page may read it. None where there is no such page, or it may not."""
        origin = sent.get(b"origin")
        if origin is None or not (self._any or origin in self._origins):
            return []
        allowed = b"*" if self._any else origin
        return [
            (b"access-control-allow-origin", allowed),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"Origin"),
        ]

    @staticmethod
    def preflight(sent: dict[bytes, bytes]) -> Headers:
        """What a browser wants to hear before it sends the page's request."""
        names = sent.get(b"access-control-request-headers", b"")
        return [
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (
                b"access-control-allow-headers",
                names if _FIELD_NAMES.fullmatch(names) else b"authorization, content-type",
            ),
            (b"access-control-max-age", _KEPT_S),
        ]
