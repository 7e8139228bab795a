"""Decides again from stored records, to show that each gives the same decision, byte for byte."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controlplane.policy.core.record import Record, RecordError, decode, encode, replay
from controlplane.policy.models import DecisionRecord
from controlplane.policy.queries import policies_of


class Replayed(NamedTuple):
    """`problem` says why a record does not give its decision again. Empty: it does."""

    row: DecisionRecord
    problem: str


def decide_again(record: Record) -> bytes:
    """The decision made again of a record, with the revisions that it names. Raises RecordError."""
    return replay(record, policies_of(record))


def replayed(rows: Iterable[DecisionRecord]) -> Iterator[Replayed]:
    for row in rows:
        yield Replayed(row, _problem(row))


def _problem(row: DecisionRecord) -> str:
    try:
        record = decode(row.record)
        decision = decide_again(record)
    except RecordError as error:
        return str(error)
    if decision == encode(record.decision):
        return ""
    return "it gives another decision: this release decides otherwise under the same version, which is a defect of Weir"
