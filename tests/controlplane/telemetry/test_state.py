"""The age of the oldest record that is not worked off, and the readiness of telemetry."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.ingest.pipeline.status import NOT_REACHED, Status
from controlplane.telemetry.ingest.spool.frame import Position
from controlplane.telemetry.process.state import HUNG_AT_START_S, HUNG_S, Commits, Shard, State


@given(st.lists(st.floats(0, 2), min_size=1, max_size=50), st.data())
def test_behind_is_the_age_of_the_oldest_record_left_within_half_a_second(
    pauses: list[float], data: st.DataObject
) -> None:
    commits, now, times = Commits(every_s=0.5), 100.0, []
    for number, pause in enumerate(pauses):
        now += pause
        times.append(now)
        commits.add(Position(1, number + 1), now)
    for done in sorted(data.draw(st.lists(st.integers(0, len(times)), max_size=5))):
        behind = commits.behind_s(Position(1, done), now)
        if done == len(times):
            assert behind == 0
        else:
            age = now - times[done]
            assert age - 1e-6 <= behind <= age + 0.5 + 1e-6 or (behind == age == 0)
    assert len(commits._marks) <= 2 + 2 * (now - 100) / 0.5


class Pipeline:
    """A child as `State` sees it."""

    name, restarts, keeps_ending = "pipeline-0", 0, False

    def __init__(self, started_s: float) -> None:
        self.started_s = started_s


STALLED_S = 15.0


class Spool:
    """A spool that accepts everything."""

    backlog = size = 0

    def refusal(self) -> str:
        return ""


def state_of(started_ago_s: float, status_ago_s: float | None) -> State:
    now_s = time.monotonic()
    shard = Shard(Position(1, 8), store_away="", reached=True)
    if status_ago_s is not None:
        shard.status_s = now_s - status_ago_s
    child = Pipeline(now_s - started_ago_s)
    return State(  # type: ignore[arg-type, list-item]
        None, Spool(), [shard], children=lambda: [child], pipelines=[child], stalled_s=STALLED_S
    )


@pytest.mark.parametrize(
    "started_ago_s, status_ago_s, ready, killed",
    [
        (100.0, 1.0, True, False),
        (100.0, STALLED_S + 1, False, False),
        (100.0, HUNG_S + 1, False, True),
        (STALLED_S - 1, 100.0, True, False),  # it was started again, and loads
        (HUNG_S + 1, 100.0, False, False),
        (HUNG_AT_START_S + 1, None, False, True),
    ],
)
def test_a_pipeline_without_a_status_is_named_and_then_killed(
    started_ago_s: float, status_ago_s: float | None, ready: bool, killed: bool
) -> None:
    state = state_of(started_ago_s, status_ago_s)
    is_ready, said = state.readiness()
    assert is_ready == ready and bool(state.hung()) == killed
    assert ("has sent no status" in str(said["work"])) != ready and said.get("reason", "ok") == said["work"]


def test_a_backlog_is_caught_up_with_and_that_is_no_fault() -> None:
    state = state_of(100.0, 0.0)
    now_s = time.monotonic()
    state.commits.begin(300.0, Position(1, 100), now_s)
    state.commits.begin(60.0, Position(2, 100), now_s)
    is_ready, said = state.readiness()
    assert is_ready and said["work"] == "catching up" and said["behind_s"] == pytest.approx(300, abs=1)
    state.shards[0].take(Status(checkpoint=Position(1, 100)))
    assert state.readiness()[1]["behind_s"] == pytest.approx(60, abs=1)
    state.shards[0].take(Status(checkpoint=Position(2, 100)))
    assert state.readiness()[1] == {
        "receiving": "ok",
        "store": "ok",
        "work": "ok",
        "spool_bytes": 0,
        "behind_s": 0.0,
        "rollups": "starting",
    }


def test_a_pipeline_that_starts_again_does_not_make_the_store_look_away() -> None:
    shard = Shard(Position(1, 8))
    shard.take(Status(store_away=NOT_REACHED))
    assert not shard.reached
    shard.take(Status(store_away=""))
    shard.take(Status(store_away=NOT_REACHED))
    assert shard.reached and shard.store_away == ""
