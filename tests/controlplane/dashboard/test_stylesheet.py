"""What the stylesheet promises: every stage's colour in both themes, and text that can be read."""

import re
from itertools import product
from pathlib import Path

import pytest

from controlplane.dashboard.core.palette import BANDS

CSS = (Path(__file__).parents[3] / "controlplane/dashboard/static/weir/weir.css").read_text()
LIGHT, DARK, SYSTEM = (
    dict(re.findall(r"(--[\w-]+):\s*([^;]+);", block)) for block in re.findall(r":root[^{]*\{([^}]*)\}", CSS)[:3]
)


def luminance(colour: str) -> float:
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


INKS = ("ink", "muted", "accent", "good", "warn", "bad", "series-1", "series-2", "series-3", "series-4")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks(theme: dict[str, str]) -> None:
    for ink, ground in product(INKS, ("paper", "panel", "sunken")):
        assert contrast(theme[f"--{ink}"], theme[f"--{ground}"]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_stage_has_a_colour_of_its_own(theme: dict[str, str]) -> None:
    assert len({theme[f"--stage-{stage}"] for stage in BANDS}) == len(BANDS)


def test_the_systems_dark_theme_is_the_chosen_one() -> None:
    assert SYSTEM == DARK


def test_it_fetches_nothing() -> None:
    assert not re.findall(r"url\(|@import|https?:", CSS)
