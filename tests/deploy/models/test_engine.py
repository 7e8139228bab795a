import threading
import time
from collections.abc import Iterator

import pytest

from deploy.local.models.engine import Engine
from deploy.local.models.timing import GpuTiming

PATIENCE_S = 120.0
INSTANT = GpuTiming(prefill_ms=0, prefill_token_ms=0, decode_ms=0, decode_sequence_ms=0)
HOURS = GpuTiming(prefill_ms=3.6e6, prefill_token_ms=0, decode_ms=3.6e6, decode_sequence_ms=0)


class Sequence:
    def __init__(self, length: int = 3) -> None:
        self.prompt_tokens = 5
        self.left = length
        self.wanted = True
        self.over = threading.Event()
        self.abandoned = False

    def cancelled(self) -> bool:
        return not self.wanted

    def step(self) -> bool:
        self.left -= 1
        if self.left == 0:
            self.over.set()
        return self.left > 0

    def abandon(self) -> None:
        self.abandoned = True
        self.over.set()


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    made: list[Engine] = []
    yield made
    for engine in made:
        engine.stop()


def test_every_sequence_runs_to_its_end(engines: list[Engine]) -> None:
    engines.append(engine := Engine(INSTANT, slots=4))
    sequences = [Sequence(length) for length in (1, 5, 3)]
    engine.submit(sequences, room_for=1)
    for sequence in sequences:
        assert sequence.over.wait(PATIENCE_S)
        assert sequence.left == 0


def test_submit_holds_its_caller_until_another_batch_would_find_room(engines: list[Engine]) -> None:
    engines.append(engine := Engine(HOURS, slots=2))
    first, second = Sequence(), Sequence()
    engine.submit([first], room_for=1)  # one place is left: comes back at once
    returned = threading.Event()
    caller = threading.Thread(target=lambda: (engine.submit([second], room_for=1), returned.set()), daemon=True)
    caller.start()
    assert not returned.wait(0.1)
    first.wanted = False
    assert returned.wait(PATIENCE_S)


def test_a_cancelled_sequence_is_dropped_in_the_middle_of_its_prefill(engines: list[Engine]) -> None:
    engines.append(engine := Engine(HOURS, slots=2))
    sequence = Sequence()
    engine.submit([sequence], room_for=1)
    sequence.wanted = False
    assert sequence.over.wait(PATIENCE_S)
    assert sequence.abandoned
    assert sequence.left == 3


def test_one_cancellation_leaves_the_others_running(engines: list[Engine]) -> None:
    engines.append(engine := Engine(GpuTiming(1, 0, 1, 0), slots=4))
    gone, stays = Sequence(100_000), Sequence(20)
    engine.submit([gone, stays], room_for=1)
    gone.wanted = False
    assert gone.over.wait(PATIENCE_S)
    assert stays.over.wait(PATIENCE_S)
    assert not stays.abandoned


def test_it_says_how_many_run(engines: list[Engine]) -> None:
    seen: list[int] = []
    idle = threading.Event()

    def step(active: int) -> None:
        seen.append(active)
        if active == 0:
            idle.set()

    engines.append(engine := Engine(INSTANT, slots=4, on_step=step))
    engine.submit([Sequence(2), Sequence(4)], room_for=1)
    assert idle.wait(PATIENCE_S)
    assert seen == [2, 1, 1, 0]


def test_stopping_interrupts_a_step_that_has_hours_to_go() -> None:
    engine = Engine(HOURS, slots=1)
    engine.submit([Sequence()], room_for=0)
    stopper = threading.Thread(target=engine.stop, daemon=True)
    stopper.start()
    stopper.join(PATIENCE_S)
    assert not stopper.is_alive()


def test_a_step_takes_the_time_that_the_timing_says(engines: list[Engine]) -> None:
    engines.append(engine := Engine(GpuTiming(50, 0, 25, 0), slots=1))
    sequence = Sequence(3)
    begun = time.monotonic()
    engine.submit([sequence], room_for=0)
    assert sequence.over.wait(PATIENCE_S)
    assert time.monotonic() - begun >= 0.050 + 2 * 0.025  # a lower bound: no machine is too slow for it
