"""What owners and the controller want done with requests, as parts of the policy snapshot.

Owners' routing rules are policy: they stay until they are edited. What the controller decides is an overlay over what owners
entered, and ends at its expiry.
"""

from typing import Annotated, Literal

from msgspec import Meta

from inference.contract.lenient import Exact

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
AtLeastOne = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Large = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Priority = Annotated[int, Meta(ge=0, le=100)]
"""Each step is an eighth of the share (`fair_queue.py`), so that more of them would be nothing."""
Amount = Annotated[float, Meta(ge=0, le=1e9)]
CacheMode = Literal["as_model", "never", "deterministic", "always"]


class Route(Exact, frozen=True):
    pool: str
    weight: Count = 100


class RouteRule(Exact, frozen=True):
    """What an owner wants done with some requests for a model. Of the rules that a request matches, the first counts.

    An empty tuple matches all. Prompts are measured as `prompt_tokens` in `inference/contract/plan.py` says: the least is
    inclusive, the most too, and 0 is no bound. What is empty or 0 leaves things as they are without the rule.
    """

    name: str  # the policy's, and the rule's in it: `chat-edge/long-prompts`. It is what clients and the ledger see
    model: str
    tiers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()  # where the request came from: the gateway's own, or `x-weir-region`
    tenants: tuple[str, ...] = ()
    min_prompt_tokens: Count = 0
    max_prompt_tokens: Count = 0
    routes: tuple[Route, ...] = ()
    fallbacks: tuple[str, ...] = ()  # pools, in order, while no pool of `routes` has a replica
    cache: CacheMode = "as_model"
    cache_ttl_s: Count = 0  # how long an answer is kept
    deadline_ms: Count = 0  # until the first token; the client's own counts where it is shorter
    priority: Priority = 0  # 1 is served first
    max_output_tokens: Count = 0


class Degradation(Exact, frozen=True):
    """A step of a ladder that is in force for a model and a tier. Several of the same model and tier count together: what a
    higher step names wins.
    """

    model: str
    tier: str  # empty: every tier
    step: int  # from 1; higher degrades more
    name: str  # of the step: what clients and the ledger see
    rule: str = ""  # the policy that it is a step of
    pool: str = ""  # serves these requests while it has a replica
    variant: str = ""  # the same, whichever pool of it; a pool that is named wins
    max_output_tokens: Count = 0
    partial: bool = False  # an answer that is cut at that limit says how to continue it
    cached_only: bool = False  # without a stored answer a request is refused
    shed: bool = False
    retry_after_s: Amount = 10.0  # what refused clients should wait


class Overlay(Exact, frozen=True):
    """What the controller has decided. At `expires_ms` (Unix time) gateways go back to what owners entered, by themselves; 0
    means that there is no overlay.
    """

    version: Large = 0
    decision: str = ""  # the id of its record
    expires_ms: Large = 0
    routes: dict[str, tuple[Route, ...]] = {}  # by model, instead of its own
    instead: dict[
        str, tuple[str, ...]
    ] = {}  # pools that serve, in order, for a pool that gets nothing, whoever named it
    degradation: tuple[Degradation, ...] = ()
    canary: dict[
        str, dict[str, Count]
    ] = {}  # by model: how these pools share the requests that they get together, percent
    awaited: dict[str, Large] = {}  # by pool without a ready replica: when the first is expected (Unix ms)


NO_OVERLAY = Overlay()
