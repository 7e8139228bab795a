"""Records replay to the same decision, byte for byte, those of former releases too."""

from pathlib import Path

import msgspec
import pytest

from controlplane.policy.core.decide import DECIDERS, VERSION, decide
from controlplane.policy.core.document import read_single
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.record import RecordError, decode, decode_memory, encode, record_of, replay
from tests.support.policy.cases import pool, scaling, seen
from tests.support.policy.recorded import FOLDER


class Recorded(msgspec.Struct):
    policies: dict[int, str]
    records: list[msgspec.Raw]


FILES = sorted(FOLDER.glob("decider_*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_records_of_every_version_replay_byte_for_byte(path: Path) -> None:
    """Where this fails, `decide` has changed: give it the next VERSION, keep the former decider, and generate another file."""
    recorded = msgspec.json.decode(path.read_bytes(), type=Recorded)
    policies = {}
    for number, text in recorded.policies.items():
        policy, problems = read_single(text)
        assert policy is not None, problems
        policies[number] = policy
    assert len(recorded.records) > 5
    for raw in recorded.records:
        record = decode(bytes(raw))
        assert replay(record, policies).decode() == encode(record.decision).decode()


def test_every_version_that_replays_has_records() -> None:
    assert {path.stem for path in FILES} == {f"decider_{version}" for version in DECIDERS}
    assert VERSION in DECIDERS


def test_a_record_that_cannot_be_replayed_says_why() -> None:
    policy, observation = scaling(), seen(pool())
    record = record_of(observation, [policy], Memory(), decide(observation, [policy], Memory()))
    with pytest.raises(RecordError, match="the policies scale@1 are missing"):
        replay(record, {})
    newer = msgspec.structs.replace(record, version=VERSION + 1)
    with pytest.raises(RecordError, match=f"version {VERSION + 1} decided it, and this release has"):
        replay(newer, {1: policy.policy})


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"version": "x"}'])
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    with pytest.raises(RecordError):
        decode(raw)
    with pytest.raises(RecordError):
        decode_memory(b'{"targets": 3}')


def test_a_field_of_a_newer_release_is_no_fault() -> None:
    record = encode(record_of(seen(pool()), [], Memory(), decide(seen(pool()), [], Memory())))
    assert decode(record.replace(b'{"version"', b'{"newer":1,"version"', 1)).version == VERSION
