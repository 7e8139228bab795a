"""The record of a decision: all that it was made from, so that anybody can make it again, byte for byte.

A record is canonical JSON: fields in the order of their types, keys of mappings sorted, defaults left out. The texts of policies are
not in it but their revisions, which are kept for good.
"""

from collections.abc import Mapping, Sequence

import msgspec

from controlplane.policy.core.decide import VERSION, decide
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.spec import InForce, Policy


class PolicyReference(msgspec.Struct, frozen=True):
    """The revision of a policy. `digest` is that of the policy (`document.digest_of`)."""

    id: int
    name: str
    revision: int
    digest: str


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """`version` is that of the decider. `decided_at_ms` is the observation's `now_ms`."""

    version: int
    decided_at_ms: int
    observation: Observation
    policies: tuple[PolicyReference, ...]
    memory: Memory
    decision: Decision


class RecordError(ValueError):
    """Permanent: a record cannot be read, or not be replayed. The message has the remedy."""


_ENCODER = msgspec.json.Encoder(order="deterministic")


def record_of(
    observation: Observation,
    policies: Sequence[InForce],
    memory: Memory,
    decision: Decision,
) -> Record:
    named = tuple(PolicyReference(each.id, each.name, each.revision, each.digest) for each in policies)
    return Record(decision.version, observation.now_ms, observation, named, memory, decision)


def encode(value: Record | Decision | Memory | Observation) -> bytes:
    """Canonical JSON: equal values have equal bytes."""
    return _ENCODER.encode(value)


def decode(raw: bytes) -> Record:
    """Raises RecordError."""
    try:
        return msgspec.json.decode(raw, type=Record)
    except msgspec.DecodeError as error:
        raise RecordError(f"not a record of a decision: {error}: fetch it again from the API") from error


def decode_memory(raw: bytes | str) -> Memory:
    """Raises RecordError."""
    try:
        return msgspec.json.decode(raw, type=Memory)
    except msgspec.DecodeError as error:
        raise RecordError(f"not the memory of decisions: {error}: delete the row to begin anew") from error


def replay(record: Record, policies: Mapping[int, Policy]) -> bytes:
    """The decision made again. `policies` are those of the record, by id of their revision. Equal to
    `encode(record.decision)`.

    Raises RecordError where a policy is missing, or another version decided.
    """
    if record.version != VERSION:
        raise RecordError(
            f"version {record.version} decided it, and this release has {VERSION}: replay it with a newer release"
        )
    missing = [f"{each.name}@{each.revision}" for each in record.policies if each.id not in policies]
    if missing:
        raise RecordError(f"the policies {', '.join(missing)} are missing: pass every revision that the record names")
    in_force = [InForce(each.id, each.revision, each.digest, policies[each.id]) for each in record.policies]
    return encode(decide(record.observation, in_force, record.memory))
