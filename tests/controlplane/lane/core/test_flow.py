"""How many lines are in flight follows what the gateway says of its pool."""

import heapq
import random

import pytest

from controlplane.lane.core.flow import FIRST_PLACES, Window, Windows


class Pool:
    """Serves `places` requests at a time, each for about a second, the others in the order in which they came."""

    def __init__(self, places: int) -> None:
        self.places, self.waiting = places, list[tuple[int, float]]()
        self.running: list[tuple[float, int, float]] = []  # until, whose, sent
        self.draw = random.Random(5)

    def send(self, whose: int, now_s: float) -> None:
        self.waiting.append((whose, now_s))
        self.begin(now_s)

    def begin(self, now_s: float) -> None:
        while self.waiting and len(self.running) < self.places:
            whose, sent_s = self.waiting.pop(0)
            heapq.heappush(self.running, (now_s + self.draw.uniform(0.5, 1.5), whose, sent_s))

    @property
    def room(self) -> int:
        return -len(self.waiting) or max(0, self.places - len(self.running))


def run(pool: Pool, windows: list[Window], until_s: float, begun_s: float = 0.0) -> list[tuple[int, int]]:
    """How many run and wait after each answer, while there are lines without end."""
    seen, now_s = [], begun_s
    while now_s < until_s:
        for whose, window in enumerate(windows):
            for _ in range(window.room):
                window.in_flight += 1
                pool.send(whose, now_s)
        now_s, whose, sent_s = heapq.heappop(pool.running)
        pool.begin(now_s)
        windows[whose].answered(200, pool.room, sent_s, now_s)
        windows[whose].in_flight -= 1
        seen.append((len(pool.running), len(pool.waiting)))
    return seen


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("places", [2, 40, 400])
def test_lanes_fill_what_there_is_and_few_lines_wait(lanes: int, places: int) -> None:
    pool = Pool(places)
    windows = [Window(1_000, float(FIRST_PLACES)) for _ in range(lanes)]
    run(pool, windows, 60.0)
    seen = run(pool, windows, 120.0, 60.0)
    assert sum(running for running, _ in seen) / len(seen) >= 0.95 * (places - 1)
    assert sum(waiting for _, waiting in seen) / len(seen) <= 2 * lanes + 0.02 * places
    pool.places = max(1, places // 4)  # others need the rest
    run(pool, windows, 180.0, 120.0)
    seen = run(pool, windows, 200.0, 180.0)
    assert sum(waiting for _, waiting in seen) / len(seen) <= 2 * lanes + 0.02 * places


def test_what_is_not_said_changes_nothing_and_a_window_that_is_not_full_does_not_grow() -> None:
    window = Windows(100).of("small")
    window.in_flight = FIRST_PLACES
    window.answered(200, None, 1.0, 2.0)
    assert window.size == FIRST_PLACES
    window.in_flight = 3
    window.answered(200, 50, 1.0, 2.0)
    assert window.size == FIRST_PLACES
    window.answered(200, -50, 1.0, 2.0)
    assert window.size == FIRST_PLACES - 1


@pytest.mark.parametrize("status", [0, 429, 503, 504])
def test_lines_that_are_turned_away_together_cut_it_once(status: int) -> None:
    window = Windows(100).of("small")
    for late_s in range(5):
        window.answered(status, None, 1.0, 2.0 + late_s)
    assert window.size == FIRST_PLACES / 2
    window.answered(status, None, 2.5, 8.0)
    assert window.size == FIRST_PLACES / 4
    for again_s in range(10, 20):
        window.answered(status, None, again_s, again_s + 0.5)
    assert window.room == 1, "one line always finds out whether there is room again"
