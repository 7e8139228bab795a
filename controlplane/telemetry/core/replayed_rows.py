"""Plain values of recorded requests, as previews of policies count them."""

from typing import NamedTuple

BINS_PER_DECADE = 40
"""Of histograms of E2E: a bin is 6 % wide."""


class RuledRow(NamedTuple):
    """Requests of one model that no rule tells apart. `band` says between which of the asked lengths the prompts lie, and `tenant` is
    empty for those that were not named. `pool` is the one that the requests were first sent to.
    """

    tier: str
    tenant: str
    region: str  # of the pool
    band: int
    pool: str
    bin: (
        int | None
    )  # of the E2E of those that a replica of this pool answered: of 10^(bin / BINS_PER_DECADE) ns and more
    requests: int
    own: int  # of these, those that the cache did not answer
    failed: int
    longer: tuple[int, ...]  # those whose answers have more tokens than each of the caps


class RuledHour(NamedTuple):
    """As in RuledRow, by the hour since 1970 in which they began."""

    tier: str
    tenant: str
    region: str
    band: int
    hour: int
    own: int


class TierMinute(NamedTuple):
    """The requests of a tier that began in one minute since 1970."""

    tier: str
    minute: int
    requests: int
    own: int
    longer: tuple[int, ...]  # those whose answers have more tokens than each of the caps
