"""Takes back request rows that later spans have shown to be no requests: say Triton's, seen before the gateway's around it."""

from collections.abc import Iterable, Sequence

from .client import Connection

RequestKey = tuple[bytes, bytes]
"""Trace id and request id, raw: 16 and 8 bytes."""

_AT_ONCE = 1_000


class Withdrawer(Connection):
    """Each call raises StoreUnavailable or StoreError. Repeating it is harmless."""

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]:
        """The requests that the store has of these traces."""
        if not trace_ids:
            return set()
        found = self.rows(
            "SELECT DISTINCT trace_id, request_id FROM requests"
            " WHERE trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16))",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {(bytes(trace_id), bytes(request_id)) for trace_id, request_id in found}

    def withdraw_requests(self, keys: Iterable[RequestKey]) -> None:
        """Delete every version of these rows. A mutation: costly, and meant for the few."""
        listed = sorted(keys)
        for at in range(0, len(listed), _AT_ONCE):
            pairs = ", ".join(
                f"(toFixedString(unhex('{trace_id.hex()}'), 16), toFixedString(unhex('{request_id.hex()}'), 8))"
                for trace_id, request_id in listed[at : at + _AT_ONCE]
            )
            self.command(f"DELETE FROM requests WHERE (trace_id, request_id) IN ({pairs})")  # noqa: S608  (hex digits)
