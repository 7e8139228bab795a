"""By what the store knows a request row, and a trace that a pipeline closed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from controlplane.telemetry.ledger.row import LedgerRow

SHARES_KEPT_H = 6
"""Hours after which a share is deleted."""


def share_of(trace_ids: Sequence[bytes]) -> list[int]:
    """Each trace id (16 raw bytes) as the 64 bits that `shares` stores. Two traces with the same bits are closed once more than needed."""
    words = np.frombuffer(b"".join(trace_ids), np.uint64).reshape(-1, 2)
    shares: list[int] = (words[:, 0] ^ words[:, 1]).tolist()
    return shares


class RequestKey(NamedTuple):
    """A request row's identity. Ids are raw: 16 and 8 bytes."""

    entry_start_ns: int
    trace_id: bytes
    request_id: bytes


def key_of(row: LedgerRow) -> RequestKey:
    return RequestKey(row.entry_start_ns, bytes.fromhex(row.trace_id), bytes.fromhex(row.request_id))
