"""Records replay to the same decision, byte for byte."""

import msgspec
import pytest

from controlplane.policy.core.decide import VERSION, decide
from controlplane.policy.core.document import read_single
from controlplane.policy.core.memory import CanaryMemory, LadderMemory, Memory, TargetMemory
from controlplane.policy.core.observation import Arm
from controlplane.policy.core.rails.rails import RAILS
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
    rails = set()
    for raw in lines:
        record = decode(raw)
        assert replay(record, policies).decode() == encode(record.decision).decode()
        rails |= {rail.name for target in record.decision.targets.values() for rail in target.rails}
    assert rails == {rail.name for rail in RAILS}


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


@pytest.mark.parametrize("raw", [b"", b"[]"])
def test_what_is_no_memory_is_refused(raw: bytes) -> None:
    with pytest.raises(RecordError):
        decode_memory(raw)


MEMORY = Memory(
    targets={"a": TargetMemory(seen=4, owned=True, recommended=((1, 4),)), "b": TargetMemory(seen=2)},
    ladders={"chat": {"batch": LadderMemory(2, 5)}},
    canaries={"new": CanaryMemory(((1, 5),), "d", "rolled_back", "slower", 9)},
)


@pytest.mark.parametrize(
    ("old", "new", "change", "place"),
    [
        (
            b'"recommended":[[1,4]]',
            b'"recommended":"x"',
            {"a": TargetMemory(seen=4, owned=True)},
            "targets.a.recommended",
        ),
        (b'"seen":4', b'"seen":"four"', {"a": TargetMemory(owned=True, recommended=((1, 4),))}, "targets.a.seen"),
        (b'"b":{"seen":2}', b'"b":7', None, "targets.b"),
    ],
)
def test_of_a_memory_that_cannot_be_read_only_that_is_lost(
    old: bytes, new: bytes, change: dict[str, TargetMemory] | None, place: str
) -> None:
    raw = encode(MEMORY)
    assert decode_memory(raw) == (MEMORY, [])
    assert raw.count(old) == 1
    read, lost = decode_memory(raw.replace(old, new))
    targets = MEMORY.targets | change if change else {"a": MEMORY.targets["a"]}
    assert read == msgspec.structs.replace(MEMORY, targets=targets)
    assert len(lost) == 1 and lost[0].startswith(f"{place}: ")


def test_a_memory_without_its_targets_keeps_canaries_and_ladders() -> None:
    plain = msgspec.json.decode(encode(MEMORY)) | {"targets": 3}
    read, lost = decode_memory(msgspec.json.encode(plain))
    assert (read.canaries, read.ladders, read.targets) == (MEMORY.canaries, MEMORY.ladders, {})
    assert lost == ["targets: Expected `object`, got `int`"]


def test_what_a_record_leaves_out_is_nothing() -> None:
    assert msgspec.json.decode(b"{}", type=Arm) == Arm(
        requests=0, failed=0, answered=0, slow=0, too_slow=0, measures={}
    )


def test_a_field_of_a_newer_release_is_no_fault() -> None:
    record = encode(record_of(seen(pool()), [], Memory(), decide(seen(pool()), [], Memory())))
    assert decode(record.replace(b'{"version"', b'{"newer":1,"version"', 1)).version == VERSION
