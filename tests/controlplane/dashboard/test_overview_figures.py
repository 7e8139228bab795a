"""A component's figures on the overview are written with their units."""

import pytest

from controlplane.dashboard.views.overview import figure

THIN = "\u202f"


@pytest.mark.parametrize(
    ("key", "value", "name", "text"),
    [
        ("behind_s", 0.0, "behind", "0 ms"),
        ("lag_s", 0.77, "lag", "770 ms"),
        ("uptime_s", 7200.0, "uptime", "2 h"),
        ("commands_per_s", 61.0, "commands", "61.0 /s"),
        ("answer_ms", 1.9, "answer", "1.90 ms"),
        ("used_memory_bytes", 4.1e6, "used memory", "4.10 MB"),
        ("objectives", 4.0, "objectives", "4"),
    ],
)
def test_a_figure_is_written_with_its_unit(key: str, value: float, name: str, text: str) -> None:
    assert figure(key, value) == (name, text.replace(" ", THIN))
