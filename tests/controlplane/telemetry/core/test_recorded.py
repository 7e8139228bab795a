"""When requests would not have been known: by what telemetry noted of how long it received."""

import pytest

from controlplane.telemetry.core.recorded import longest_without, unrecorded

BASE_S = 1_700_000_100
"""A start of five minutes."""
WHOLE = 300.0


@pytest.mark.parametrize(
    ("noted", "stretches"),
    [
        ([WHOLE] * 5, []),
        ([WHOLE, 280.0, WHOLE, WHOLE, WHOLE], []),
        ([], [(100, 1_400)]),
        ([WHOLE, 120.0, 0.0, 90.0, WHOLE], [(300, 1_110)]),  # it received again for the last 90 s
        ([WHOLE, 0.0, WHOLE, 0.0, WHOLE], [(300, 600), (900, 1_200)]),
        ([WHOLE, WHOLE, WHOLE, WHOLE, 180.0], [(1_200, 1_320)]),
        ([0.0, WHOLE, WHOLE, WHOLE, WHOLE], [(100, 300)]),
    ],
)
def test_a_stretch_ends_where_telemetry_received_again(noted: list[float], stretches: list[tuple[int, int]]) -> None:
    recorded_s = {BASE_S + 300 * at: seconds for at, seconds in enumerate(noted) if seconds}
    found = unrecorded(BASE_S + 100, BASE_S + 1_400, recorded_s, BASE_S + 2_000.0)
    assert found == [(BASE_S + begin, BASE_S + end) for begin, end in stretches]


def test_what_is_not_over_yet_ends_with_what_is_noted() -> None:
    recorded_s = {BASE_S: 300.0, BASE_S + 300: 50.0}
    assert unrecorded(BASE_S, BASE_S + 600, recorded_s, BASE_S + 470.0) == [(BASE_S + 300, BASE_S + 420)]


def test_the_longest_time_without_requests() -> None:
    assert longest_without([3, 9], 0, 12) == (4, 9)
    assert longest_without([], 0, 12) == (0, 12)
