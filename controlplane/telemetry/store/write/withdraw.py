"""Withdraws request rows that later spans show to be parts of another request, such as a Triton span that came before the gateway's."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from controlplane.telemetry.ledger.row import LedgerRow

from ..client import Connection

_IN_TRACES = "trace_id IN (SELECT toFixedString(unhex(arrayJoin({traces:Array(String)})), 16))"


class RequestKey(NamedTuple):
    """A request row's identity. Ids are raw: 16 and 8 bytes."""

    entry_start_ns: int
    trace_id: bytes
    request_id: bytes


def key_of(row: LedgerRow) -> RequestKey:
    return RequestKey(row.entry_start_ns, bytes.fromhex(row.trace_id), bytes.fromhex(row.request_id))


class Withdrawer(Connection):
    """Each call raises StoreUnavailableError or StoreError. Repeating it is harmless."""

    def request_keys(self, trace_ids: Sequence[bytes]) -> set[RequestKey]:
        """The stored requests of these traces."""
        if not trace_ids:
            return set()
        rows = self.rows(
            "SELECT entry_start_ns, trace_id, request_id FROM requests"
            f" WHERE {_IN_TRACES} GROUP BY entry_start_ns, trace_id, request_id HAVING argMax(withdrawn, version) = 0",
            {"traces": [trace_id.hex() for trace_id in trace_ids]},
        )
        return {RequestKey(start_ns, bytes(trace_id), bytes(request_id)) for start_ns, trace_id, request_id in rows}

    def withdraw_requests(self, keys: Sequence[RequestKey], version: int | Sequence[int]) -> None:
        """Hide every version of these rows up to `version` (one for all, or one for each), also those written later.

        A row of a higher version shows again. Costs one small insert.
        """
        if not keys:
            return
        columns = {
            "entry_start_ns": pa.array([key.entry_start_ns for key in keys], pa.uint64()),
            "trace_id": pa.array([key.trace_id for key in keys], pa.binary(16)),
            "request_id": pa.array([key.request_id for key in keys], pa.binary(8)),
            "version": pa.array([version] * len(keys) if isinstance(version, int) else version, pa.uint64()),
            "withdrawn": pa.array([1] * len(keys), pa.uint8()),
        }
        self.insert_arrow("requests", pa.table(columns))
