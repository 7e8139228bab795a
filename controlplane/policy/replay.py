"""Decides again from stored records, to show that each gives the same decision, byte for byte."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controlplane.policy.core import document
from controlplane.policy.core.record import RecordError, decode, encode, replay
from controlplane.policy.core.spec import Policy
from controlplane.policy.models import DecisionRecord, PolicyRevision


class Replayed(NamedTuple):
    """`problem` says why a record does not give its decision again. Empty: it does."""

    row: DecisionRecord
    problem: str


def replayed(rows: Iterable[DecisionRecord]) -> Iterator[Replayed]:
    """Decide again from each record, with the revisions that it names."""
    texts: dict[int, Policy] = {}
    for row in rows:
        yield Replayed(row, _problem(row, texts))


def _problem(row: DecisionRecord, read: dict[int, Policy]) -> str:
    try:
        record = decode(row.record)
        missing = [each.id for each in record.policies if each.id not in read]
        for revision in PolicyRevision.objects.filter(pk__in=missing) if missing else ():
            policy, _ = document.read_single(revision.text)
            if policy is not None:
                read[revision.pk] = policy
        decision = replay(record, read)
    except RecordError as error:
        return str(error)
    if decision == encode(record.decision):
        return ""
    return "it gives another decision: this release decides otherwise under the same version, which is a defect of Weir"
