"""Plain values of what the cache answered."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheRow:
    """Requests that are alike. `length` is that of their answers: up to 2^length - 1 output tokens and more than half of that; -1 where
    they are not known. Times and tokens are of answered ones, tokens of the `counted` ones alone.
    """

    model: str
    rule: str  # the routing rule that they followed; empty without one
    pool: str
    operation: str
    outcome: str  # as `LedgerRow.cache_outcome`
    length: int
    requests: int
    answered: int
    e2e_ns: int
    counted: int
    prompt_tokens: int
    output_tokens: int
    begun: int = 0  # answered ones whose inference had begun beside the look-up; their tokens are not counted


@dataclass(frozen=True, slots=True)
class CachePoint:
    start_ns: int
    outcome: str
    requests: int


@dataclass(frozen=True, slots=True)
class CacheStep:
    """A step of the stage `cache`, by the name of its span."""

    name: str
    count: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Similar:
    """How much is known of the answers for similar requests of a model on one route, as its gateways say. `threshold` is the least
    similarity that is served; None where nothing is.
    """

    model: str
    route: str
    words: str  # "same" or "other" words than the candidate's
    judge: str  # the model that has agreed to each of its candidates; empty without one
    labels: int
    labels_wanted: int
    wrong: int | None  # of the labels; None of a gateway that does not say it
    marks: int | None  # of these those that people made
    threshold: float | None
    broke: bool
    changes: int
    examples: tuple[str, ...] = ()  # trace ids of wrong ones, the newest, while `broke`


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something came of look-ups, or of inputs of lists."""

    model: str
    result: str
    count: int


@dataclass(frozen=True, slots=True)
class Written:
    """What gateways wrote for the requests of a model that followed one routing rule."""

    model: str
    rule: str  # empty without one
    size_bytes: int
