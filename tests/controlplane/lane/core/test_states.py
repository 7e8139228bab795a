"""What follows from an answer, and who goes first."""

import pytest

from controlplane.lane.core.fairness import URGENT_S, Candidate, shares
from controlplane.lane.core.states import MAX_WAIT_S, Again, judge

NOT_AGAIN = {"x-should-retry": "false"}


@pytest.mark.parametrize(
    ("status", "headers", "tries", "verdict"),
    [
        (200, {}, 1, "done"),
        (299, {}, 1, "done"),
        (300, {}, 1, Again(1.0)),
        (400, {}, 1, "refused"),
        (401, {}, 1, "refused"),
        (422, {}, 1, "refused"),
        (429, {}, 1, Again(1.0)),
        (429, {"retry-after": "20"}, 1, Again(20.0)),
        (429, {"retry-after": "soon"}, 3, Again(4.0)),
        (408, {}, 2, Again(2.0)),
        (503, {}, 30, Again(MAX_WAIT_S)),
        (503, {"retry-after": "99999"}, 1, Again(MAX_WAIT_S)),
        (500, NOT_AGAIN, 2, Again(2.0)),
        (500, NOT_AGAIN, 3, "refused"),
        (0, {}, 9, Again(256.0)),
    ],
)
def test_an_answer_ends_a_line_or_has_it_tried_again(
    status: int, headers: dict[str, str], tries: int, verdict: object
) -> None:
    assert judge(status, headers, tries, chance=1.0) == verdict


def test_lines_that_failed_together_are_not_tried_together() -> None:
    waits = {judge(503, {}, 5, chance / 10) for chance in range(10)}
    assert len(waits) == 10 and all(isinstance(it, Again) and 8.0 <= it.wait_s <= 16.0 for it in waits)


def test_places_are_shared_by_tenant_and_a_tenants_go_to_its_nearest_deadline() -> None:
    waiting = [
        Candidate(1, "alice", 9 * URGENT_S, "small"),
        Candidate(2, "alice", 5 * URGENT_S, "large"),
        Candidate(3, "bob", 20 * URGENT_S, "large"),
    ]
    room = {"small": 9, "large": 9}
    assert shares(waiting, {}, 4, room) == {2: 2, 3: 2}
    assert shares(waiting, {"alice": 3}, 4, room) == {3: 3, 2: 1}, "until bob has three in flight too"
    assert shares(waiting, {}, 4, {"small": 9, "large": 1}) == {2: 1, 1: 3}, (
        "where a model has no room, the other one's"
    )
    assert shares(waiting, {}, 4, {"small": 0, "large": 0}) == shares([], {"alice": 2}, 4, room) == {}
    late = [*waiting, Candidate(4, "carol", URGENT_S - 1, "large"), Candidate(5, "bob", URGENT_S - 2, "small")]
    assert shares(late, {"bob": 100}, 4, room) == {5: 4}, "the nearest deadline first, whoever's it is"
    assert shares(late, {"bob": 100}, 4, {"small": 0, "large": 2}) == {4: 2}
