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


class RecordedRequest(NamedTuple):
    """One request as gateways decide about it, and as objectives judged it. Times of stages that it did not have are 0."""

    at_ms: int  # Unix time
    e2e_ms: int
    tokenizer_ms: int
    queue_ms: int
    model_ms: int  # of one attempt; 0 of several, whose times are not told apart
    model: str
    pool: str  # the one that it was first sent to
    caller_region: str
    tier: str
    tenant: str
    prompt_tokens: int | None
    output_tokens: int | None
    cache: str
    status: str
    limited: bool  # its tenant's or key's own limit refused it
    can_wait: bool
    codes: tuple[int, ...]  # by cut: 2 * place + bound, or -1 where it is not counted (`Classes`)
