"""Records which pipeline closed which trace, so that each learns which traces others have spans of."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..client import Connection

KEPT_H = 6
"""Hours after which a share is deleted."""


def share_of(trace_ids: Sequence[bytes]) -> list[int]:
    """Each trace id (16 raw bytes) as the 64 bits that `shares` stores. Two traces with the same bits are closed once more than needed."""
    words = np.frombuffer(b"".join(trace_ids), np.uint64).reshape(-1, 2)
    shares: list[int] = (words[:, 0] ^ words[:, 1]).tolist()
    return shares


class ShareStore(Connection):
    """Each call raises StoreUnavailableError or StoreError. Repeating it is harmless."""

    def insert_shares(self, process: int, batch: int, shares: Sequence[int]) -> None:
        """Record that `process` closed these traces (see `share_of`) in batch `batch`."""
        if shares:
            columns = {"process": [process] * len(shares), "batch": [batch] * len(shares), "trace": shares}
            self.insert_arrow("shares", pa.table({name: pa.array(of, pa.uint64()) for name, of in columns.items()}))

    def shared(self, process: int, batch: int, age_s: int) -> dict[int, int]:
        """The traces of this batch that other processes closed within the last `age_s` seconds, and how many times."""
        rows = self.rows(
            "SELECT trace, count() FROM shares"
            " WHERE process != {process:UInt64} AND taken_at >= now() - {age_s:UInt32}"
            " AND trace IN (SELECT trace FROM shares WHERE process = {process:UInt64} AND batch = {batch:UInt64})"
            " GROUP BY trace",
            {"process": process, "batch": batch, "age_s": age_s},
        )
        return dict(rows)
