"""What one inference has to do."""

from typing import NamedTuple

from inference.backends.fleet import PoolState
from inference.backends.port import Query
from inference.contract.plan import Plan
from inference.contract.snapshot import Model, StageTimeouts
from inference.core.fair_queue import Claim
from inference.request.guard.guards import Answers
from inference.request.parse import Request
from inference.tokenizers.model_text import ModelText


class Work(NamedTuple):
    """`fallbacks` are the pools that are tried, in this order, where `pool` cannot serve."""

    question: Query
    model: Model
    pool: PoolState
    fallbacks: tuple[PoolState, ...]
    text: ModelText
    timeouts: StageTimeouts
    claim: Claim  # its cost is that of the answer alone, as far as it is known
    trace_id: bytes
    flags: bytes
    plan: Plan
    request: Request  # what `question` is made of
    most: int = 0  # output tokens, by policy; 0 is no limit
    can_wait: bool = False  # it is a line of the lane that nobody waits for
    ttl_s: int = 0  # for which its answer may be kept
    stale_for_s: int = 0  # and be given after that, while a new one is made
    guarded: Answers | None = None  # what its answer goes through, by rules of its tenant
