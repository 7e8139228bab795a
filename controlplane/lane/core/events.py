"""The events of a streamed response: a server's, with the lane's numbers and names in place of the server's."""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.lane.core.jobs import members_of
from inference.contract.lenient import reading

FIRST = 2
"""The number of a server's first event. Before it are the lane's own: that the response was made, and that it is queued."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_BEGINS = ("response.created", "response.queued")


_read = reading(dict[str, msgspec.Raw])


class Events:
    """`about` is what the lane says of the response. Once the last event has come, it is in `last`, and `response` is what it has."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.last = b""
        self.response: dict[str, Any] | None = None
        self._about, self._number, self._rest = about, FIRST, b""

    def feed(self, data: bytes) -> bytes:
        """The events that have come whole with this, but the last of the response."""
        text = self._rest + data
        kept = text[-1:] if text.endswith(b"\r") else b""  # its line may go on
        lines = text.removesuffix(kept).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = lines.split(b"\n\n")
        self._rest = rest + kept
        return b"".join(self._event(text) for text in whole if not self.last)

    def end(self) -> bytes:
        """The same of a stream that has come whole: a last event may have no empty line after it."""
        return self.feed(b"\n\n")

    def _event(self, text: bytes) -> bytes:
        """Nothing of an error either: what breaks off is begun again, or is said to have broken off."""
        data = b"".join(line[5:] for line in text.split(b"\n") if line.startswith(b"data:"))
        data = data.decode("utf-8", "replace").encode()
        try:
            members: dict[str, Any] = {**_read(data)}
            kind = msgspec.json.decode(members.get("type", b'""'), type=str)
        except ValueError:
            return b""
        if not kind or kind == "error" or kind in _BEGINS:
            return b""
        response = members_of(members.get("response", msgspec.Raw()))
        if response:
            members["response"] = response = {**response, **self._about}
        out = event(kind, self._number, members)
        self._number += 1
        if kind in _ENDS and response:
            self.last, self.response = out, response
            return b""
        return out


def event(kind: str, number: int, members: Mapping[str, Any]) -> bytes:
    data = {**members, "type": kind, "sequence_number": number}
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))
