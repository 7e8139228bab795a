"""The stale marker, which ends a series: a gap follows, and not the last value or zero.

It is Prometheus' marker, one certain NaN. Any other NaN is a value that was sent.
https://prometheus.io/docs/specs/remote_write_spec/#stale-markers
"""

import struct

import numpy as np
import numpy.typing as npt

BITS = 0x7FF0000000000002
[STALE] = struct.unpack("<d", struct.pack("<Q", BITS))


def is_stale(value: float) -> bool:
    return value != value and bool(struct.pack("<d", value) == struct.pack("<Q", BITS))


def stale(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which of the values are the marker."""
    markers: npt.NDArray[np.bool_] = np.ascontiguousarray(values).view(np.uint64) == np.uint64(BITS)
    return markers
