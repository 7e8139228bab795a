"""Reads the decisions of the last 14 days, and lets policies decide again on what was seen then."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from controlplane.policy.core.record import Record, RecordError, decode
from controlplane.policy.core.spec import InForce, Policy
from controlplane.policy.models import DecisionRecord, PolicyRevision
from controlplane.policy.preview.common import NS_PER_S, window
from controlplane.policy.preview.core.walk import Walk, scaled_by
from controlplane.policy.revisions.read import try_policy_of

EVERY_ROWS = 500
"""Progress is said so often."""


def replayed(policies: Mapping[str, InForce], progress: Callable[[float], None]) -> dict[str, Walk]:
    """What each of these degradation or routing policies would have decided, by the same keys."""
    walks = {side: Walk(policy) for side, policy in policies.items()}
    if walks:
        for record, in_force in records(progress):
            scaling = scaled_by(in_force)
            for walk in walks.values():
                walk.see(record, scaling)
    return walks


def records(progress: Callable[[float], None]) -> Iterator[tuple[Record, list[InForce]]]:
    """Each record by time, of shadows too, with the policies that it followed and that can be read."""
    since = datetime.fromtimestamp(window().from_ns / NS_PER_S, UTC)
    rows = DecisionRecord.objects.filter(at__gte=since)
    known: dict[int, Policy | None] = {}
    count = rows.count()
    for number, row in enumerate(rows.order_by("at", "pk").iterator(chunk_size=50)):
        if number % EVERY_ROWS == 0:
            progress(number / count)
        try:
            record = decode(row.record)
        except RecordError:
            continue
        missing = [each.id for each in record.policies if each.id not in known]
        if missing:
            known |= dict.fromkeys(missing)
            known |= {each.pk: try_policy_of(each) for each in PolicyRevision.objects.filter(pk__in=missing)}
        yield (
            record,
            [
                InForce(each.id, each.revision, each.digest, policy)
                for each in record.policies
                if (policy := known[each.id]) is not None
            ],
        )
