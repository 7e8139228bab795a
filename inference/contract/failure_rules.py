"""What owners set of how the gateway deals with replicas that fail, as parts of the policy snapshot. docs/routing.md has the reason
for each default.
"""

from typing import Annotated

from msgspec import Meta

from inference.contract.lenient import Exact
from inference.contract.rules import AtLeastOne, Count

Percent = Annotated[int, Meta(ge=0, le=100)]


class Ejection(Exact, frozen=True):
    """When a replica that fails gets no calls for a while. The names of Envoy's outlier detection are beside its values
    (api/envoy/config/cluster/v3/outlier_detection.proto).
    """

    failures: Count = 5  # in a row eject it (consecutive_5xx); 0 never does
    failure_percent: Percent = (
        50  # of its calls of the last seconds eject it (failure_percentage_threshold); 0 never does
    )
    min_calls: AtLeastOne = 10  # of the last seconds, for that share to count (failure_percentage_request_volume)
    base_s: AtLeastOne = 30  # times the number of ejections (base_ejection_time)
    most_percent: Percent = 10  # of a pool's replicas, but always one (max_ejection_percent)
    panic_percent: Percent = 50  # while fewer of a pool's replicas are left, no ejection counts; 0: they always do
    probes: AtLeastOne = (
        3  # or connections in a row that fail: then it is down (unhealthy_threshold of Envoy's health checks)
    )


class Retries(Exact, frozen=True):
    """How often a request is tried, and how many repeats a pool takes (api/envoy/config/cluster/v3/circuit_breaker.proto)."""

    attempts: AtLeastOne = 3  # of one request in one pool, with hedges
    percent: Percent = (
        20  # of the pool's requests in flight may be repeats without a token (retry_budget.budget_percent)
    )
    least: Count = 3  # repeats that are always allowed (min_retry_concurrency)


EJECTION, RETRIES = Ejection(), Retries()
