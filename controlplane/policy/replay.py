"""Decides again from stored records, to show that each gives the same decision, byte for byte."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controlplane.policy.core.record import Record, RecordError, decode, encode, replay
from controlplane.policy.decider import decider
from controlplane.policy.models import DecisionRecord
from controlplane.policy.queries import policies_of


class Replayed(NamedTuple):
    """`problem` says why a record does not give its decision again. Empty: it does. `other` is the code that made it, unless it is this
    release's.
    """

    row: DecisionRecord
    problem: str
    other: str = ""


def decide_again(record: Record) -> bytes:
    """The decision made again of a record, with the revisions that it names. Raises RecordError."""
    return replay(record, policies_of(record))


def replayed(rows: Iterable[DecisionRecord]) -> Iterator[Replayed]:
    for row in rows:
        yield _replayed(row)


def _replayed(row: DecisionRecord) -> Replayed:
    try:
        record = decode(row.record)
        other = "" if record.decider == decider() else record.decider or "unknown code"
        decision = decide_again(record)
    except RecordError as error:
        return Replayed(row, str(error))
    if decision == encode(record.decision):
        return Replayed(row, "", other)
    if other:
        return Replayed(row, f"it gives another decision: {other} made it, and this is {decider()}", other)
    return Replayed(row, "it gives another decision: the same code decides otherwise, which is a defect of Weir")
