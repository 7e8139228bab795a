"""The events of a streamed response: a server's, with the lane's numbers and names in place of the server's."""

from collections.abc import Mapping
from typing import Any

import msgspec

FIRST = 2
"""The number of a server's first event. Before it are the lane's own: that the response was made, and that it is queued."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_BEGINS = ("response.created", "response.queued")


class Events:
    """`about` is what the lane says of the response. Once the last event has come, it is in `last`, and `response` is what it has."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.last = b""
        self.response: dict[str, Any] | None = None
        self._about, self._number, self._rest = about, FIRST, b""

    def feed(self, data: bytes) -> bytes:
        """The events that have come whole with this, but the last of the response."""
        *whole, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        return b"".join(self._event(text) for text in whole if not self.last)

    def _event(self, text: bytes) -> bytes:
        """Nothing of an error either: what breaks off is begun again, or is said to have broken off."""
        data = b"".join(line[5:] for line in text.split(b"\n") if line.startswith(b"data:"))
        try:
            members = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return b""
        kind, response = members.get("type"), members.get("response")
        if not isinstance(kind, str) or kind == "error" or kind in _BEGINS:
            return b""
        if isinstance(response, dict):
            members["response"] = response = {**response, **self._about}
        out = event(kind, self._number, members)
        self._number += 1
        if kind in _ENDS and isinstance(response, dict):
            self.last, self.response = out, response
            return b""
        return out


def event(kind: str, number: int, members: Mapping[str, Any]) -> bytes:
    data = {**members, "type": kind, "sequence_number": number}
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))
