"""When the last minutes of the ledger cannot be trusted."""

import pytest

from controlplane.slo.core.freshness import Freshness, stale_reason

USUAL = {"newest_s": 300.0, "telemetry": "up", "gateway": "up", "gateway_per_s": 0.0, "behind_s": 0.0}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({}, ""),
        ({"newest_s": 5.0, "telemetry": "unknown", "gateway": "unknown", "gateway_per_s": None}, ""),
        ({"newest_s": 45.0, "telemetry": "down", "down_s": [46.0]}, ""),
        ({"newest_s": 9.0, "telemetry": "down", "down_s": [9.0]}, ""),
        ({"newest_s": 9.0, "telemetry": "down", "down_s": [8.0]}, "telemetry is down"),
        ({"newest_s": 9.0, "gateway": "down", "down_s": [8.0]}, "the gateway is down"),
        ({"newest_s": 45.1, "telemetry": "down"}, "telemetry is down"),
        ({"behind_s": 90.0, "newest_s": 5.0}, "telemetry is 90 s behind"),
        ({"behind_s": 90.0, "telemetry_error": "its disk is full"}, "telemetry is 90 s behind: its disk is full"),
        (
            {"gateway_per_s": 12.0, "telemetry_error": "its disk is full"},
            "no request reaches the ledger (the newest ended 5 min ago): its disk is full",
        ),
        ({"behind_s": 45.0}, ""),
        ({"behind_s": None}, ""),
        ({"behind_s": 30.0, "newest_s": 60.0, "gateway_per_s": 3.0}, ""),
        ({"behind_s": 10.0, "newest_s": 60.0, "gateway_per_s": 3.0}, "none reaches the ledger"),
        ({"telemetry": "down"}, "telemetry is down"),
        ({"gateway": "down"}, "the gateway is down"),
        (
            {"gateway_per_s": 12.0},
            "the gateway ends 12.0 requests/s, and none reaches the ledger (the newest ended 5 min ago)",
        ),
        (
            {"gateway_per_s": 12.0, "stored_per_s": 11.0},
            "requests reach the ledger (11.0/s), and by their own clocks the newest ended 5 min ago: the gateway's clock is off",
        ),
        (
            {"newest_s": None, "gateway_per_s": 1.0, "stored_per_s": 1.0},
            "by their own clocks it has none of the last day",
        ),
        (
            {"telemetry": "stale", "gateway": "stale", "gateway_per_s": None},
            "telemetry and the gateway were not observed",
        ),
        ({"newest_s": None, "telemetry": "unknown", "gateway": "unknown", "gateway_per_s": None}, ""),
        ({"newest_s": None, "telemetry": "down"}, "it has none"),
    ],
)
def test_what_makes_objectives_unknown(seen: dict[str, object], words: str) -> None:
    found = stale_reason(Freshness(**{**USUAL, **seen}), 45.0)  # type: ignore[arg-type]
    assert words in found
    assert bool(found) == bool(words)
