"""A sample of the requests, for questions that need many columns of each: reading 2 million requests whole takes seconds.

`request_samples` has one trace in SAMPLED, by a hash of its id, with all its requests. So a share in the sample is that of all requests
within chance, whatever the filters; what is rare may be missing. Sparser samples are of parts of the time alone.
"""

from controlplane.telemetry.core.query_types import Filters, Window, excluded

from ..client import Connection
from ..tiers import SAMPLED
from .where import COLUMNS, Where, where

MAX_READ = 150_000
"""Requests that are read one by one. Of so many, a share of the slowest twentieth is known within 1.2 % (two standard deviations)."""
STRETCHES = 48


def one_in(connection: Connection, window: Window, filters: Filters | None = None) -> int:
    """Of how many requests one is to be read so that about MAX_READ are at most: 1, or SAMPLED times a power of two.

    Of a rare filter all requests are read, because few of the sample have it. So they are of attributes, which the sample lacks.
    """
    filters = filters or {}
    if "attribute" in filters or not excluded(filters).keys() <= COLUMNS.keys():
        return 1
    condition = where(window, filters)
    [(count,)] = connection.rows(f"SELECT count() FROM request_samples WHERE {condition.sql}", condition.parameters)
    level = 1
    while count * SAMPLED > MAX_READ * level:
        level *= SAMPLED if level == 1 else 2
    return level


def sampled(condition: Where, window: Window, level: int) -> Where:
    """The condition, of requests of this window, on a sample of one in `level`."""
    if level > 1:
        condition = condition.copy()
        condition.table = "request_samples"
        if level > SAMPLED:
            within_stretches(condition, window, level // SAMPLED)
    return condition


def within_stretches(condition: Where, window: Window, level: int) -> None:
    """Leaves one in `level` of the window's time, in parts at equal distances: for what needs all requests of a time."""
    if level > 1:
        apart_ns = (window.to_ns - window.from_ns) / STRETCHES
        starts_ns = [round(window.from_ns + number * apart_ns) for number in range(STRETCHES)]
        within = " OR ".join(
            f"entry_start_ns >= {start_ns} AND entry_start_ns < {start_ns + round(apart_ns / level)}"
            for start_ns in starts_ns
        )
        condition.add(f"({within})")
