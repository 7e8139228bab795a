"""Records replay to the same decision, byte for byte."""

import msgspec
import pytest

from controlplane.policy.core.decide import VERSION, decide
from controlplane.policy.core.document import read_single
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.record import RecordError, decode, decode_memory, encode, record_of, replay
from tests.support.policy.cases import pool, scaling, seen
from tests.support.policy.recorded import GOLDEN


def test_the_golden_record_replays_byte_for_byte() -> None:
    """Where this fails, `decide` has changed: give it the next VERSION, and write the golden record again."""
    texts, *lines = GOLDEN.read_bytes().splitlines()
    policies = {}
    for number, text in msgspec.json.decode(texts, type=dict[int, str]).items():
        policy, problems = read_single(text)
        assert policy is not None, problems
        policies[number] = policy
    assert len(lines) > 5
    for raw in lines:
        record = decode(raw)
        assert replay(record, policies).decode() == encode(record.decision).decode()


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
