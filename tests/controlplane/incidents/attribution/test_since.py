"""Since when it burns, of minutes with good and bad requests."""

from controlplane.incidents.attribution.core.since import since_ns
from controlplane.telemetry.core.objective_counts import CountedStep

MINUTE = 60 * 10**9


def began(*bad: int, total: int = 1000) -> int | None:
    """The number of the minute, of a target of 99.9 %."""
    found = since_ns([CountedStep(number * MINUTE, one, total) for number, one in enumerate(bad)], 0.999, MINUTE)
    return None if found is None else found // MINUTE


def test_it_begins_with_the_first_bad_minute() -> None:
    assert began(0, 0, 500, 700, 900) == 2


def test_a_trickle_before_an_outage_is_not_its_beginning() -> None:
    assert began(2, 3, 2, 0, 2, 1000, 1000) == 5


def test_what_grows_slowly_begins_where_it_is_a_tenth_of_its_worst() -> None:
    assert began(2, 5, 21, 40, 80, 160, 200) == 2


def test_what_is_over_began_never() -> None:
    assert began(900, 900, 0, 0, 0, 0) is None
