"""What a benchmark is to measure: read from a job's request, checked against the fleet, the objectives and the ledger."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.fleet import models as fleet
from controlplane.fleet.models import PublishedSnapshot
from controlplane.fleet.validators import NAME
from controlplane.planning.core.judging import Criterion, Measure
from controlplane.planning.core.measuring import NS_PER_S, judges
from controlplane.planning.jobs import JobRefusedError
from controlplane.planning.measured import covering_pool
from controlplane.planning.models import PoolCapacity
from controlplane.slo.models import StoredObjective
from controlplane.telemetry.core.query_types import FROM_CACHE, Window
from controlplane.telemetry.query import answers
from controlplane.telemetry.store import StoreError, StoreUnavailableError
from inference.contract import snapshot
from inference.contract.snapshot import Endpoint, Pool

LIMIT_S, MIN_LIMIT_S, MAX_LIMIT_S = 900, 30, 3600
TARGET, MIN_TARGET, MAX_TARGET = 0.95, 0.5, 0.999
MAX_TOKENS, MAX_SLOTS, MAX_THRESHOLD_MS = 1_000_000, 100_000, 600_000
MIX_DAYS, MIX_REQUESTS = 7, 500
TRAFFIC_S = 120
"""A replica that has answered a user's request in so many seconds takes users' traffic."""
MEASURES: dict[str, Measure] = {"ttft": "ttft", "itl": "itl", "e2e": "e2e"}


class BenchmarkRequest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job's request. Empty and None: the pool's only or first ready replica, its GPU type, the mix as the ledger measured it, and
    the latency objectives of the pool.
    """

    pool: str
    replica: str = ""
    gpu: str = ""
    input_tokens: float | None = None
    output_tokens: float | None = None
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    target: float | None = None
    slots: int | None = None
    limit_s: int = LIMIT_S
    despite_traffic: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A benchmark that can begin. `pool` has the replica as its only endpoint; `users_traffic` is what users sent to it, as a sentence
    without its end, empty for nothing.
    """

    request: BenchmarkRequest
    pool: Pool
    row: fleet.Pool
    gpu: str
    lengths: tuple[tuple[int, int], ...]
    criteria: tuple[Criterion, ...]
    slots: int
    users_traffic: str

    @property
    def endpoint(self) -> Endpoint:
        return self.pool.endpoints[0]


def request_of(given: Mapping[str, Any]) -> BenchmarkRequest:
    """The request, each number within its bounds. Raises JobRefusedError, which names the field, its value and the remedy."""
    try:
        request = msgspec.convert(dict(given), BenchmarkRequest)
    except msgspec.ValidationError as error:
        raise JobRefusedError(f"{error}: use the fields of the API's document") from None
    for name, least, most, remedy in (
        ("input_tokens", 1, MAX_TOKENS, "give the mean of a request"),
        ("output_tokens", 1, MAX_TOKENS, "give the mean of a request"),
        ("ttft_ms", 1, MAX_THRESHOLD_MS, "give the longest good time in ms"),
        ("e2e_ms", 1, MAX_THRESHOLD_MS, "give the longest good time in ms"),
        ("target", MIN_TARGET, MAX_TARGET, "give the share of good requests, such as 0.95"),
        ("slots", 1, MAX_SLOTS, "give how many requests the replica works on at a time"),
        ("limit_s", MIN_LIMIT_S, MAX_LIMIT_S, "give how long it may take, in s"),
    ):
        value = getattr(request, name)
        if value is not None and not least <= value <= most:
            raise JobRefusedError(f"{name}={value:g} is not between {least:g} and {most:g}: {remedy}")
    if (request.input_tokens is None) != (request.output_tokens is None):
        missing = "input_tokens" if request.input_tokens is None else "output_tokens"
        raise JobRefusedError(f"{missing} is missing: give the mean of both, input and output tokens, or of neither")
    if request.target is not None and request.ttft_ms is None and request.e2e_ms is None:
        raise JobRefusedError(
            f"target={request.target:g} has no threshold: give ttft_ms or e2e_ms too, or leave it out for the objectives"
        )
    if request.gpu and not (NAME.fullmatch(request.gpu) and len(request.gpu) <= 63):
        raise JobRefusedError(
            f"gpu={request.gpu!r} is not a name: use lower-case letters, digits, '.', '-' and '_', such as h100-80gb"
        )
    return request


def wanted_of(given: Mapping[str, Any], check_traffic: bool = True) -> Wanted:
    """Raises JobRefusedError where it cannot be measured, or must not be just now."""
    request = request_of(given)
    row = fleet.Pool.objects.filter(name=request.pool).select_related("variant__model", "region").first()
    if row is None:
        names = ", ".join(fleet.Pool.objects.values_list("name", flat=True)[:20]) or "none"
        raise JobRefusedError(f"pool={request.pool!r} is unknown: there are {names}")
    pool = _published(request.pool)
    endpoint = _endpoint(pool, request.replica)
    own = PoolCapacity.objects.select_related("gpu_type").filter(pool=row).first()
    gpu = request.gpu or (own.gpu_type.name if own and own.gpu_type else "")
    if not gpu:
        raise JobRefusedError(f"gpu is missing: pool {pool.name!r} has no GPU type yet, so name the one of its replica")
    criteria = criteria_of(request, row)
    if not criteria:
        raise JobRefusedError(
            f"pool={pool.name!r} has no latency objective (TTFT, ITL or E2E): give ttft_ms or e2e_ms, or make an objective"
        )
    try:
        traffic = users_traffic(pool.name, endpoint.replica)
    except (StoreUnavailableError, StoreError):
        traffic = "It is not known whether it takes users' traffic, because the ledger does not answer"
    if check_traffic and traffic and not request.despite_traffic:
        raise JobRefusedError(
            f"replica={endpoint.replica!r}: {traffic}, which a benchmark would slow down, and which would lower its figure. "
            "Choose a replica without traffic (such as one of a pool with weight 0), or confirm it: despite_traffic"
        )
    return Wanted(
        request=request,
        pool=msgspec.structs.replace(pool, endpoints=(endpoint,)),
        row=row,
        gpu=gpu,
        lengths=_lengths(request, pool.name),
        criteria=criteria,
        slots=request.slots or pool.replica_concurrency,
        users_traffic=traffic,
    )


def criteria_of(request: BenchmarkRequest, row: fleet.Pool) -> tuple[Criterion, ...]:
    """The thresholds that were entered, else the enabled latency objectives whose scope has the pool's requests."""
    target = TARGET if request.target is None else request.target
    entered: tuple[tuple[Measure, float | None], ...] = (("ttft", request.ttft_ms), ("e2e", request.e2e_ms))
    given = tuple(Criterion(measure, ms / 1000, target) for measure, ms in entered if ms is not None)
    return given or objectives_of(row)


def objectives_of(row: fleet.Pool) -> tuple[Criterion, ...]:
    """The latency objectives that judge requests of the pool."""
    counted = judges(each.to_objective() for each in StoredObjective.objects.filter(enabled=True))
    return tuple(
        Criterion(MEASURES[judge.cut.measure], judge.cut.thresholds[0] / 1000, judge.target, judge.slug)
        for judge in covering_pool(row, counted)
        if judge.cut.measure in MEASURES
    )


def measured_lengths(pool: str) -> tuple[tuple[int, int], ...]:
    """Input and output tokens of the pool's newest answered requests in the ledger. Raises the store's errors."""
    now_ns = time.time_ns()
    window = Window(now_ns - MIX_DAYS * 86_400 * NS_PER_S, now_ns)
    rows = answers.store().requests.page(window, {"pool": (pool,), "status": ("ok",)}, "newest", MIX_REQUESTS).rows
    return tuple(
        (row.prompt_tokens, row.output_tokens)
        for row in rows
        if row.replica and row.prompt_tokens and row.output_tokens and row.cache_outcome not in FROM_CACHE
    )


def replicas(pool: str) -> tuple[str, ...]:
    """The names of the pool's replicas. Raises JobRefusedError."""
    return tuple(endpoint.replica for endpoint in _published(pool).endpoints)


def _published(name: str) -> Pool:
    text = PublishedSnapshot.objects.values_list("text", flat=True).first()
    pools = {pool.name: pool for pool in snapshot.decode(text.encode()).pools} if text else {}
    if name not in pools:
        raise JobRefusedError(
            f"pool={name!r} is not in the policy snapshot: enable it and its model (a weight of 0 will do)"
        )
    return pools[name]


def _endpoint(pool: Pool, replica: str) -> Endpoint:
    by_name = {endpoint.replica: endpoint for endpoint in pool.endpoints}
    if not by_name:
        raise JobRefusedError(f"pool={pool.name!r} has no replica: start one")
    if replica and replica not in by_name:
        raise JobRefusedError(f"replica={replica!r} is not of pool {pool.name!r}: it has {', '.join(by_name)}")
    return by_name[replica] if replica else pool.endpoints[0]


def _lengths(request: BenchmarkRequest, pool: str) -> tuple[tuple[int, int], ...]:
    if request.input_tokens is not None and request.output_tokens is not None:
        return ((round(request.input_tokens), round(request.output_tokens)),)
    try:
        measured = measured_lengths(pool)
    except (StoreUnavailableError, StoreError):
        raise JobRefusedError(
            "input_tokens and output_tokens are missing, and the ledger, which would say them, does not answer: give both"
        ) from None
    if not measured:
        raise JobRefusedError(
            f"input_tokens and output_tokens are missing, and the ledger has no request of pool {pool!r} with its tokens in the last "
            f"{MIX_DAYS} days: give both"
        )
    return measured


def users_traffic(pool: str, replica: str) -> str:
    """What users sent to the replica within TRAFFIC_S, as a sentence without its end; empty for nothing. Raises the store's errors."""
    now_ns = time.time_ns()
    page = answers.store().requests.page(
        Window(now_ns - TRAFFIC_S * NS_PER_S, now_ns), {"pool": (pool,), "replica": (replica,)}, "newest", 1000
    )
    count = sum(row.cache_outcome not in FROM_CACHE for row in page.rows)
    if not count:
        return ""
    many = f"{count} or more requests" if page.next_cursor else "1 request" if count == 1 else f"{count} requests"
    return f"It has answered {many} of users in the last {TRAFFIC_S} s"
