"""The record of a decision: all that it was made from, so that anybody can make it again, byte for byte.

A record is canonical JSON: fields in the order of their types, keys of mappings sorted, defaults left out. The texts of policies are
not in it but their revisions, which are kept for good.
"""

from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

import msgspec

from controlplane.policy.core.decide import VERSION, decide
from controlplane.policy.core.decision import Decision
from controlplane.policy.core.document import digest_of
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
    """`version` is that of the decider, and `decider` says which code it was. `decided_at_ms` is the observation's `now_ms`."""

    version: int
    decided_at_ms: int
    observation: Observation
    policies: tuple[PolicyReference, ...]
    memory: Memory
    decision: Decision
    decider: str = ""


class RecordError(ValueError):
    """Permanent: a record cannot be read, or not be replayed. The message has the remedy."""


_ENCODER = msgspec.json.Encoder(order="deterministic")


def record_of(
    observation: Observation, policies: Sequence[InForce], memory: Memory, decision: Decision, decider: str = ""
) -> Record:
    named = tuple(PolicyReference(each.id, each.name, each.revision, each.digest) for each in policies)
    return Record(decision.version, observation.now_ms, observation, named, memory, decision, decider)


def encode(value: Record | Decision | Memory | Observation) -> bytes:
    """Canonical JSON: equal values have equal bytes."""
    return _ENCODER.encode(value)


def decode(raw: bytes) -> Record:
    """Raises RecordError."""
    try:
        return msgspec.json.decode(raw, type=Record)
    except msgspec.DecodeError as error:
        raise RecordError(f"not a record of a decision: {error}: fetch it again from the API") from error


def decode_memory(raw: bytes | str) -> tuple[Memory, list[str]]:
    """The memory, and what of it cannot be read: that alone is left out. Raises RecordError where nothing can be read."""
    try:
        plain = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RecordError(f"not the memory of decisions: {error}: delete the row to begin anew") from error
    lost: list[str] = []
    return _readable(plain, Memory, "", lost) or Memory(), lost


def _readable(plain: Any, kind: Any, place: str, lost: list[str]) -> Any:
    """`plain` as `kind`, without the entries and fields that do not fit, which are added to `lost`. None where nothing is left."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        inside = _kinds_inside(kind, plain)
        if not inside:
            lost.append(f"{place.lstrip('.')}: {error}")
            return None
    read = {name: _readable(plain[name], its, f"{place}.{name}", lost) for name, its in inside.items()}
    kept = {name: value for name, value in read.items() if value is not None}
    try:
        return msgspec.convert(kept, kind, from_attributes=True)
    except msgspec.ValidationError as error:  # a field is gone that cannot be left out
        lost.append(f"{place.lstrip('.')}: {error}")
        return None


def _kinds_inside(kind: Any, plain: Any) -> dict[str, Any]:
    """The type of each entry of a mapping, and of each field of a struct, that `plain` has."""
    if not isinstance(plain, dict):
        return {}
    if get_origin(kind) is dict:
        return dict.fromkeys(plain, get_args(kind)[1])
    structs = [each for each in (kind, *get_args(kind)) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if not structs:
        return {}
    return {field.encode_name: field.type for field in msgspec.structs.fields(structs[0]) if field.encode_name in plain}


def replay(record: Record, policies: Mapping[int, Policy]) -> bytes:
    """The decision made again. `policies` are those of the record, by id of their revision. Equal to
    `encode(record.decision)`.

    Raises RecordError where a policy is missing or says something else than then, or another version decided.
    """
    if record.version != VERSION:
        raise RecordError(
            f"version {record.version} decided it, and this release has {VERSION}: replay it with a newer release"
        )
    missing = [f"{each.name}@{each.revision}" for each in record.policies if each.id not in policies]
    if missing:
        raise RecordError(f"the policies {', '.join(missing)} are missing: pass every revision that the record names")
    others = [f"{each.name}@{each.revision}" for each in record.policies if digest_of(policies[each.id]) != each.digest]
    if others:
        raise RecordError(
            f"{', '.join(others)} says something else than when it was followed: restore the text of the revision from a backup"
        )
    in_force = [InForce(each.id, each.revision, each.digest, policies[each.id]) for each in record.policies]
    return encode(decide(record.observation, in_force, record.memory))
