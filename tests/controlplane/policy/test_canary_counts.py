"""A canary from the ledger to its end."""

import dataclasses
import random
from functools import partial
from typing import Any

import msgspec
import pytest

from controlplane.policy.canary_counts import SETTLED_MS, WHOLE_EVERY_MS, Counter
from controlplane.policy.core.canary import advance, due_at
from controlplane.policy.core.memory import CanaryLook, CanaryMemory, Chances
from controlplane.policy.core.spec import Canary, CanarySpec, Compared, InForce, Metadata
from controlplane.telemetry.core.canary_rows import CanaryReading, Score
from controlplane.telemetry.ledger.row import LedgerRow
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import NOON_NS, row

SPEC = CanarySpec(model="small", baseline="old", candidate="new", steps=(50,), max_requests=1_000)
POLICY = InForce(1, 1, "digest", Canary(api_version="weir/v1", metadata=Metadata(name="try-new"), spec=SPEC))
BEGAN_MS = NOON_NS // 1_000_000
LOOK = partial(CanaryLook, alpha=0.01, beta=0.01, chances=Chances(1, 1, 1, 1), verdict="continue", reason="")
RUNNING = {"try-new": CanaryMemory(entered=((BEGAN_MS, 50),), digest=POLICY.spec_digest)}


def served(pool: str, requests: int, slower: float, seed: int) -> list[LedgerRow]:
    """Requests of ten minutes."""
    rng = random.Random(seed)
    return [
        row(
            seed * 10_000 + number,
            pool=pool,
            entry_start_ns=NOON_NS + number * 600_000_000_000 // requests,
            stages={"model": int(rng.lognormvariate(0, 0.3) * slower * 100e6)},
        )
        for number in range(requests)
    ]


def test_a_candidate_that_is_slower_in_the_ledger_is_rolled_back(store: Store) -> None:
    store.writer.insert_requests(served("old", 600, 1.0, 1) + served("new", 600, 1.4, 2), version=1)
    now_ms = BEGAN_MS + 600_000 + SETTLED_MS
    seen = Counter(store).counts([POLICY], RUNNING, now_ms)["try-new"]
    assert (seen.strata[0].candidate.requests, seen.strata[0].baseline.requests) == (600, 600)
    assert seen.candidate_ms is not None
    assert seen.baseline_ms is not None
    assert seen.candidate_ms > seen.baseline_ms
    after = advance("try-new", SPEC, POLICY.spec_digest, seen, RUNNING["try-new"], now_ms)
    assert after.percent == {"old": 100, "new": 0}


@pytest.mark.parametrize(
    ("measure", "changes"),
    [
        ("ttft", {"ttft_ns": 6_000_000}),
        ("itl", {"decode_ns": 14_000_000}),
        ("cost", {"cost_usd": 0.0024}),
        ("score:help", {}),
    ],
)
def test_a_candidate_that_is_as_fast_and_worse_in_what_else_is_compared_is_rolled_back(
    store: Store, measure: str, changes: dict[str, Any]
) -> None:
    spec = msgspec.structs.replace(SPEC, measures=(Compared(measure),))
    policy = msgspec.structs.replace(POLICY, policy=msgspec.structs.replace(POLICY.policy, spec=spec))
    running = {"try-new": msgspec.structs.replace(RUNNING["try-new"], digest=policy.spec_digest)}
    rng = random.Random(7)

    def spread(each: LedgerRow, **more: Any) -> LedgerRow:
        """What is compared differs from request to request, as it does in earnest."""
        its = {"ttft_ns": each.ttft_ns, "decode_ns": each.decode_ns, "cost_usd": each.cost_usd} | more
        by = rng.lognormvariate(0, 0.2)
        return dataclasses.replace(each, **{key: type(value)(value * by) for key, value in its.items() if value})

    rows = [spread(each) for each in served("old", 600, 1.0, 1)]
    rows += [spread(each, **changes) for each in served("new", 600, 1.0, 2)]
    store.writer.insert_requests(rows, version=1)
    scores = [
        Score(each.trace_id, "help", (0.8 if each.pool == "old" else 0.5) * rng.lognormvariate(0, 0.2)) for each in rows
    ]
    store.writer.insert_scores([dataclasses.replace(score, value=9.0) for score in scores], NOON_NS)
    store.writer.insert_scores(scores, NOON_NS + 1)
    now_ms = BEGAN_MS + 600_000 + SETTLED_MS
    seen = Counter(store).counts([policy], running, now_ms)["try-new"]
    ours, its = seen.strata[0].candidate.measures[measure], seen.strata[0].baseline.measures[measure]
    assert (ours.known, its.known) == (600, 600) and its.high in (29, 30) and ours.high > 300
    after = advance("try-new", spec, policy.spec_digest, seen, running["try-new"], now_ms)
    assert after.memory is not None and after.memory.outcome == "rolled_back"
    said = f"its {measure} at p5 is lower" if measure == "score:help" else f"its {measure} at p95 is higher"
    assert f"{said} than the baseline's" in after.memory.reason


def test_requests_that_may_not_have_ended_are_left_out(store: Store) -> None:
    store.writer.insert_requests(served("old", 600, 1.0, 1) + served("new", 600, 1.0, 2), version=1)
    seen = Counter(store).counts([POLICY], RUNNING, BEGAN_MS + 300_000 + SETTLED_MS)["try-new"]
    assert seen.strata[0].candidate.requests == 300


def test_a_candidate_that_fails_every_request_is_rolled_back_within_ten_of_them(store: Store) -> None:
    """One request a second to each pool, and a count every five."""
    failing = [dataclasses.replace(each, status="error", error_type="upstream") for each in served("new", 600, 1.0, 2)]
    store.writer.insert_requests(served("old", 600, 1.0, 1) + failing, version=1)
    counter, running = Counter(store), RUNNING["try-new"]
    for now_ms in range(BEGAN_MS, BEGAN_MS + 10_000, 5_000):
        seen = counter.counts([POLICY], {"try-new": running}, now_ms)["try-new"]
        running = advance("try-new", SPEC, POLICY.spec_digest, seen, running, now_ms).memory
    seen = counter.counts([POLICY], {"try-new": running}, BEGAN_MS + 10_000)["try-new"]
    after = advance("try-new", SPEC, POLICY.spec_digest, seen, running, BEGAN_MS + 10_000)
    assert after.percent == {"old": 100, "new": 0}
    assert after.memory.looks[-1].requests <= 10


def test_only_canaries_that_run_are_counted(store: Store) -> None:
    ended = {"try-new": msgspec.structs.replace(RUNNING["try-new"], outcome="promoted")}
    edited = {"try-new": msgspec.structs.replace(RUNNING["try-new"], digest="another")}
    assert Counter(store).counts([POLICY], {}, BEGAN_MS) == {}
    assert Counter(store).counts([POLICY], ended, BEGAN_MS) == {}
    assert Counter(store).counts([POLICY], edited, BEGAN_MS) == {}


class Read:
    """A store that keeps what it is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.canaries = self
        self.whole: list[int] = []
        self.new: list[tuple[int, int]] = []

    def reading(self, *arguments: Any) -> CanaryReading:
        self.whole.append(arguments[4] // 1_000_000 - BEGAN_MS)
        return self._store.canaries.reading(*arguments)

    def requests(self, model: str, pool: str, from_ns: int, to_ns: int) -> int:
        self.new.append((from_ns // 1_000_000 - BEGAN_MS, to_ns // 1_000_000 - BEGAN_MS))
        return self._store.canaries.requests(model, pool, from_ns, to_ns)


def test_a_whole_time_is_counted_again_when_something_may_be_concluded(store: Store) -> None:
    """One request a second to each pool; the second look at latency is at 100."""
    store.writer.insert_requests(served("old", 600, 1.0, 1) + served("new", 600, 1.0, 2), version=1)
    running = {"try-new": msgspec.structs.replace(RUNNING["try-new"], looks=(LOOK(50),))}
    read = Read(store)
    counter = Counter(read)  # type: ignore[arg-type]
    begun_ms = BEGAN_MS + SETTLED_MS + 51_000
    counter.counts([POLICY], running, begun_ms)
    read.whole.clear()
    ages_ms = range(5_000, 50_001, 5_000)
    seen = [counter.counts([POLICY], running, begun_ms + age_ms)["try-new"] for age_ms in ages_ms]
    assert read.whole == [101_000], "when 100 requests were served"
    assert read.new == [(51_000 + age_ms - 5_000, 51_000 + age_ms) for age_ms in ages_ms], "each is counted once"
    assert seen[-1].strata[0].candidate.requests == 101


def test_the_first_requests_are_counted_as_soon_as_they_have_ended(store: Store) -> None:
    """One request a second to each pool; early looks are at 5, 10, 20 and 40, and latency is judged from 50 on."""
    store.writer.insert_requests(served("old", 600, 1.0, 1) + served("new", 600, 1.0, 2), version=1)
    read = Read(store)
    counter, running = Counter(read), RUNNING["try-new"]  # type: ignore[arg-type]
    for now_ms in range(BEGAN_MS, BEGAN_MS + 120_000, 5_000):
        seen = counter.counts([POLICY], {"try-new": running}, now_ms)["try-new"]
        running = advance("try-new", SPEC, POLICY.spec_digest, seen, running, now_ms).memory
    assert [each.requests for each in running.looks] == [5, 10, 20, 40, 50]
    assert running.outcome == "running"
    assert seen.strata[0].candidate.requests <= 60, "those of the last minute are left out of what latency is judged by"


def test_a_whole_time_is_counted_again_each_minute_and_with_a_new_weight(store: Store) -> None:
    store.writer.insert_requests(served("old", 60, 1.0, 1) + served("new", 60, 1.0, 2), version=1)
    read = Read(store)
    counter = Counter(read)  # type: ignore[arg-type]
    counter.counts([POLICY], RUNNING, BEGAN_MS)
    counter.counts([POLICY], RUNNING, BEGAN_MS + WHOLE_EVERY_MS)
    entered = {"try-new": msgspec.structs.replace(RUNNING["try-new"], entered=((BEGAN_MS, 50), (BEGAN_MS + 1, 75)))}
    counter.counts([POLICY], entered, BEGAN_MS + WHOLE_EVERY_MS + 1)
    assert read.whole == [0, WHOLE_EVERY_MS, WHOLE_EVERY_MS + 1]


def test_it_is_due_at_the_next_look_or_step() -> None:
    spec = msgspec.structs.replace(SPEC, steps=(5, 50))
    begun = CanaryMemory(entered=((0, 5),), digest=POLICY.spec_digest)
    assert due_at(spec, begun) == 5
    assert due_at(spec, msgspec.structs.replace(begun, looks=(LOOK(40),))) == 50
    judged = msgspec.structs.replace(begun, looks=(LOOK(350),))
    assert due_at(spec, judged) == 500, "both"
    assert due_at(msgspec.structs.replace(spec, steps=(5, 25, 50)), judged) == 334, "the step"
    assert due_at(spec, msgspec.structs.replace(begun, looks=(LOOK(1_000),), entered=((0, 5), (1, 50)))) == 1_000
