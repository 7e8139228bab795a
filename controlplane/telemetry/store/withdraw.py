"""Takes back request rows that later spans have shown to be no requests: say Triton's, seen before the gateway's around it."""

from collections.abc import Iterable, Sequence

from .client import Connection

RequestKey = tuple[bytes, bytes]
"""Trace id and request id, raw: 16 and 8 bytes."""

_AT_ONCE = 500
_IN_TRACES = "trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16))"


class Withdrawer(Connection):
    """Each call raises StoreUnavailable or StoreError. Repeating it is harmless."""

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]:
        """The requests that the store has of these traces."""
        if not trace_ids:
            return set()
        found = self.rows(
            "SELECT trace_id, request_id FROM requests"
            f" WHERE {_IN_TRACES} GROUP BY trace_id, request_id HAVING argMax(withdrawn, version) = 0",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {(bytes(trace_id), bytes(request_id)) for trace_id, request_id in found}

    def withdraw_requests(self, keys: Iterable[RequestKey]) -> None:
        """Hide these rows, in every version so far: a newer version, should it be written, shows again. Costs one small insert."""
        listed = sorted(keys)
        for at in range(0, len(listed), _AT_ONCE):
            some = listed[at : at + _AT_ONCE]
            self.command(
                "INSERT INTO requests (entry_start_ns, trace_id, request_id, version, withdrawn)"
                " SELECT any(entry_start_ns), trace_id, request_id, max(version) + 1, 1 FROM requests"
                f" WHERE {_IN_TRACES} AND lower(hex(request_id)) IN {{requests:Array(String)}}"
                " AND (lower(hex(trace_id)), lower(hex(request_id))) IN"
                " (SELECT arrayJoin(arrayZip({traces:Array(String)}, {requests:Array(String)})))"
                " GROUP BY trace_id, request_id HAVING argMax(withdrawn, version) = 0",
                {"traces": [trace.hex() for trace, _ in some], "requests": [request.hex() for _, request in some]},
            )
