"""For how long telemetry received: what tells no traffic from a time that nobody measured."""

import time

from controlplane.telemetry.process.rollups import Recording, Rollups
from controlplane.telemetry.store import Store
from tests.support.wait import eventually


def test_time_in_which_spans_were_refused_is_not_recorded() -> None:
    recording = Recording(1_000.0)
    recording.until(1_010.0)
    recording.until(1_030.0, receives=False)
    recording.until(1_040.0)
    assert recording.seconds == {900: 20.0}


def test_a_spool_that_refuses_is_no_time_without_requests(store: Store, dsn: str) -> None:
    """It was noted as received: rates and demand of a full disk were low, and not unknown."""
    refusals, asked = ["its disk is full"], []

    def refusal() -> str:
        asked.append(time.time())
        return refusals[0]

    def noted() -> float:
        return sum(store.demand.recorded(0, 2**40).values())

    rollups = Rollups(dsn, 30, 0.01, refusal)
    rollups.start()
    try:
        eventually(lambda: len(asked) > 3)
        assert noted() == 0
        refusals[0] = ""
        eventually(lambda: noted() > 0)
    finally:
        rollups.stop()
