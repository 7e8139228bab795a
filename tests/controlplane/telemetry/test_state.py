"""How old the oldest record is that is not worked off: never nothing while there is one."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.spool.frame import Position
from controlplane.telemetry.state import Commits


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
