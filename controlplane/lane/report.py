"""How batches and jobs stand, for screens, REST and metrics."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Min, Q

from controlplane.core.listing import newest_first
from controlplane.lane.core import states
from controlplane.lane.models import Batch, Callback, Line, Worker
from controlplane.lane.store import claims

FILTERS = {"tenant": "tenant", "status": "status"}


class Standing(NamedTuple):
    """A batch and how far it is. `rate_per_s` is the mean since its first line could run, and None, as what follows from it, while no line
    has a result. `ends_at` is when the last line will have one at that rate; None while no worker `works`. Tokens are None where an answer
    does not say them.
    """

    batch: Batch
    share: float | None
    rate_per_s: float | None
    ends_at: datetime | None
    errors_by_kind: dict[str, int]
    works: bool
    input_tokens: int | None
    output_tokens: int | None


def listed(
    wanted: Mapping[str, Sequence[str]], before: int | None, limit: int, now: datetime
) -> tuple[list[Standing], int | None]:
    """The newest first, and where the next page begins; None on the last page. `wanted` are tenants and statuses by FILTERS."""
    page = newest_first(Batch.objects.filter(kind=states.BATCH), FILTERS, wanted, before, limit)
    return standings(page.rows, now), page.next_before


def standings(batches: Sequence[Batch], now: datetime) -> list[Standing]:
    kinds = _kinds([batch.pk for batch in batches if batch.status in states.OPEN])
    works = Worker.objects.filter(leased_until__gt=claims.now()).exists()
    return [_standing(batch, kinds.get(batch.pk, {}), now, works) for batch in batches]


def _standing(batch: Batch, kinds: dict[str, int], now: datetime, works: bool) -> Standing:
    share = (batch.completed + batch.failed) / batch.total if batch.total else None
    ends_at = batch.ends_at(now) if works else None
    tokens = (batch.input_tokens, batch.output_tokens) if batch.says_tokens else (None, None)
    return Standing(batch, share, batch.rate_per_s(now), ends_at, batch.errors_by_kind or kinds, works, *tokens)


def _kinds(batches: Sequence[int]) -> Mapping[int, dict[str, int]]:
    """Errors of batches whose lines are not counted yet."""
    out: defaultdict[int, Counter[str]] = defaultdict(Counter)
    refused = Line.objects.filter(batch__in=batches, state=states.REFUSED)
    for batch, code, status, count in refused.values_list("batch", "code", "status_code").annotate(count=Count("pk")):
        out[batch][states.kind_of_error(states.REFUSED, code, status)] += count
    return out


class JobsOfTenant(NamedTuple):
    """How many of its jobs and background responses there are, by how they stand: those that have ended while they are kept. And its
    webhooks, of batches too.
    """

    tenant: str
    counts: dict[str, int]  # by status; `queued` have not begun
    oldest_queued_at: datetime | None
    callbacks_pending: int
    callbacks_refused: int


JOB_STATES = (
    states.QUEUED,
    states.IN_PROGRESS,
    states.COMPLETED,
    states.INCOMPLETE,
    states.FAILED,
    states.EXPIRED,
    states.CANCELLED,
)


def jobs(tenants: Collection[str] = ()) -> list[JobsOfTenant]:
    """Of all tenants that have any, or of those that are named, in order."""
    only = {"tenant__in": tenants} if tenants else {}
    rows = Batch.objects.filter(**only).exclude(kind=states.BATCH)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tenant, status, count in (
        rows.exclude(status=states.IN_PROGRESS).values_list("tenant", "status").annotate(count=Count("pk"))
    ):
        counts[tenant][status] = count
    queued = Q(lines__tries=0)
    oldest = {}
    for tenant, every, waiting, since in (
        rows.filter(status=states.IN_PROGRESS)
        .values_list("tenant")
        .annotate(every=Count("pk"), queued=Count("pk", filter=queued), since=Min("created_at", filter=queued))
    ):
        counts[tenant] |= {states.QUEUED: waiting, states.IN_PROGRESS: every - waiting}
        oldest[tenant] = since
    callbacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    sent = Callback.objects.filter(**({"job__tenant__in": tenants} if tenants else {}))
    for tenant, state, count in sent.values_list("job__tenant", "state").annotate(count=Count("pk")):
        callbacks[tenant][state] = count
    return [
        JobsOfTenant(
            tenant,
            {state: counts[tenant][state] for state in JOB_STATES},
            oldest.get(tenant),
            callbacks[tenant][Callback.State.PENDING],
            callbacks[tenant][Callback.State.REFUSED],
        )
        for tenant in sorted({*counts, *callbacks})
    ]


def waiting(now: datetime) -> tuple[int, float]:
    """How many jobs have not begun, and for how long the oldest of them waits, s."""
    rows = Batch.objects.filter(status=states.IN_PROGRESS, lines__tries=0).exclude(kind=states.BATCH)
    number, since = rows.aggregate(number=Count("pk"), since=Min("created_at")).values()
    return number, max(0.0, (now - since).total_seconds()) if since else 0.0
