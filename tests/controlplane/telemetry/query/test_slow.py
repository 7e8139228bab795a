"""Which requests are the slow ones, as URLs say it."""

import pytest

from controlplane.telemetry.core.query_types import Region, Window
from controlplane.telemetry.query.core.errors import BadQuestionError
from controlplane.telemetry.query.core.slow import Slow, parse_slow

NOW_NS = 1_795_000_000 * 10**9
TIMES = {"region_from": "1794999000", "region_to": "1794999060"}


def parsed(default: str = "p95", **parameters: str) -> Slow:
    return parse_slow({name: [value] for name, value in parameters.items()}, NOW_NS, default)  # type: ignore[arg-type]


def test_by_default_they_are_those_above_p95() -> None:
    assert parsed() == Slow("p95")
    assert parsed("p99").above == "p99"
    assert parsed(above="p50").above == "p50"


def test_a_region_has_two_axes_either_of_which_may_be_open() -> None:
    window = Window(1_794_999_000 * 10**9, 1_794_999_060 * 10**9)
    assert parsed(**TIMES).region == Region(0, None, window)
    assert parsed(slower_than_ms="0.25").region == Region(250_000)
    assert parsed(e2e_to_ms="20").region == Region(0, 20_000_000)
    assert parsed(e2e_from_ms="10", e2e_to_ms="20", **TIMES).region == Region(10_000_000, 20_000_000, window)


def test_a_region_is_written_as_it_was_read() -> None:
    asked = {"e2e_from_ms": "10.5", **TIMES}
    assert parsed(**dict(parsed(**asked).pairs())) == parsed(**asked)
    assert parsed(above="p99").pairs() == []


@pytest.mark.parametrize(
    ("field", "parameters"),
    [
        ("above", {"above": "p42"}),
        ("above", {"above": "p95", "slower_than_ms": "10"}),
        ("slower_than_ms", {"slower_than_ms": "10", "e2e_to_ms": "20"}),
        ("slower_than_ms", {"slower_than_ms": "nan"}),
        ("e2e_from_ms", {"e2e_from_ms": "-1"}),
        ("e2e_from_ms", {"e2e_from_ms": "1e300"}),
        ("e2e_to_ms", {"e2e_from_ms": "20", "e2e_to_ms": "20"}),
        ("region_to", {"region_from": "now-5m"}),
        ("region_to", {"region_from": "now-5m", "region_to": "now-5m"}),
        ("region_from", {"region_from": "soon", "region_to": "now"}),
    ],
)
def test_what_cannot_be_understood_is_named(field: str, parameters: dict[str, str]) -> None:
    with pytest.raises(BadQuestionError) as caught:
        parsed(**parameters)
    assert caught.value.field == field
