"""Reads what ticks decided, for pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from controlplane.core.reported import reported_at
from controlplane.fleet.models import Observation
from controlplane.policy.core.record import Record, RecordError, decode
from controlplane.policy.core.spec import Policy
from controlplane.policy.models import DecisionChange, DecisionRecord, Memory, PolicyRevision
from controlplane.policy.revisions.read import try_policy_of

TICKS = "policies"
"""The component that each tick says it is up by."""
MAX_RECORDS = 300
"""A chart has no more points than these."""
MAX_CHANGES = 1_000


@dataclass(frozen=True, slots=True)
class NewestDecision:
    """The newest decision that acts, and in `record` what a tick saw since, at `seen_at`. `at` is the last tick's time, `unreadable` why
    the record cannot be read.
    """

    row: DecisionRecord
    at: datetime
    seen_at: datetime
    record: Record | None = None
    unreadable: str = ""

    @property
    def at_ms(self) -> int:
        return int(self.at.timestamp() * 1000)


def newest_decision() -> NewestDecision | None:
    """How policies stand now; None where no tick has decided yet."""
    row = DecisionRecord.objects.filter(shadow=False).order_by("-pk").first()  # a clock may have been set back
    if row is None:
        return None
    last = Memory.objects.filter(name=Memory.ACTIVE, at__gt=row.at).exclude(packed=b"").first()
    ticked = Observation.objects.filter(component=TICKS).values_list("observed_at", flat=True).first()
    shown = last or row
    at = max(filter(None, (shown.at, ticked and reported_at(TICKS, ticked, timezone.now()))))
    try:
        return NewestDecision(row, at, shown.at, decode(shown.record))
    except RecordError as error:
        return NewestDecision(row, at, shown.at, unreadable=str(error))


def records(from_at: datetime, to_at: datetime, most: int = MAX_RECORDS) -> list[Record]:
    """Records of decisions that act, by time, evenly thinned to at most so many. Those that cannot be read are left out."""
    keys = list(
        DecisionRecord.objects.filter(shadow=False, at__gte=from_at, at__lt=to_at)
        .order_by("at", "pk")
        .values_list("pk", flat=True)
    )
    return list(_decoded(keys[:: -(-len(keys) // most)] if keys else ()))


def _decoded(keys: Sequence[int]) -> Iterator[Record]:
    for row in DecisionRecord.objects.filter(pk__in=keys).order_by("at", "pk").iterator(chunk_size=50):
        try:
            yield decode(row.record)
        except RecordError:
            continue


def changes(from_at: datetime, to_at: datetime, condition: Q) -> list[DecisionChange]:
    """What was changed or held in a time, the newest first, at most MAX_CHANGES."""
    rows = DecisionChange.objects.filter(condition, at__gte=from_at, at__lt=to_at).select_related("decision")
    return list(rows.defer("decision__packed").order_by("-at", "-pk")[:MAX_CHANGES])


def in_force(state: str = PolicyRevision.State.ACTIVE) -> list[Policy]:
    """The policies of the active revisions, or of those in shadow, by name."""
    rows = PolicyRevision.objects.filter(state=state).order_by("name")
    return [policy for row in rows if (policy := try_policy_of(row)) is not None]


def policies_of(record: Record) -> dict[int, Policy]:
    """The policies that a record was decided by, by the id of their revision."""
    rows = PolicyRevision.objects.filter(pk__in=[each.id for each in record.policies])
    return {row.pk: policy for row in rows if (policy := try_policy_of(row)) is not None}
