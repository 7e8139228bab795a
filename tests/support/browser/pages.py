"""What a person does on the pages, in their words."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import plotly.graph_objects as go
import pytest
from playwright.sync_api import Page, ViewportSize, expect

from deploy.local.process import ROOT
from tests.support.soak import sized

TRANSITIONS_END = """() => Promise.all(
    document.getAnimations().filter(each => each instanceof CSSTransition).map(each => { each.finish(); return each.finished; })
).then(() => null)"""
NOT_SIDEWAYS = "() => document.documentElement.scrollWidth <= innerWidth"
AXE = ROOT / "build" / "vendor" / "axe.min.js"


def open_latency(page: Page, query: str = "") -> None:
    page.goto(f"/latency{query}")
    drawn(page)


def linked(page: Page) -> None:
    """Wait until the page would be told of changes."""
    expect(page.locator("#data[data-linked]")).to_have_count(1)


def drawn(page: Page, times: int = 1) -> None:
    """Wait until the chart has been drawn so often."""
    page.wait_for_function("times => Number(document.getElementById('chart')?.dataset.drawn || 0) >= times", arg=times)


def times_drawn(page: Page) -> int:
    return int(page.locator("#chart").get_attribute("data-drawn") or 0)


def query(page: Page) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


def length_s(asked: dict[str, str]) -> float:
    """How long a fixed range in a URL is."""
    return (datetime.fromisoformat(asked["to"]) - datetime.fromisoformat(asked["from"])).total_seconds()


def drag(page: Page, start: float, end: float) -> None:
    """Across the upper chart, from one fraction of its width to another."""
    box = page.locator("#chart .nsewdrag").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, y)
    page.mouse.down()
    for part in range(1, 6):
        page.mouse.move(box["x"] + box["width"] * (start + (end - start) * part / 5), y)
    page.mouse.up()


def mark(page: Page) -> None:
    """Leave a note that a reload would lose."""
    page.evaluate("window.stillTheSamePage = true")


def not_reloaded(page: Page) -> None:
    assert page.evaluate("window.stillTheSamePage === true"), "the page was reloaded"


def requests_shown(page: Page) -> int:
    """How many requests the latency page says there are."""
    text = page.locator(".headline p.muted").first.inner_text()
    return int("".join(character for character in text.split("request")[0] if character.isdigit()))


def settled(page: Page) -> None:
    expect(page.locator(".htmx-request")).to_have_count(0)


Theme = Literal["light", "dark"]
THEMES: tuple[Theme, Theme] = ("dark", "light")
SIZES: tuple[ViewportSize, ...] = ({"width": 1440, "height": 900}, {"width": 390, "height": 844})
RUN_AXE = """only => axe.run(document, {preload: false, resultTypes: ['violations'], rules: {'target-size': {enabled: true}},
    ...(only ? {runOnly: {type: 'rule', values: [only]}} : {})}).then(found => found.violations)"""


def holds_for_everybody(page: Page, path: str) -> None:
    """Open it wide and narrow, light and dark: axe finds nothing, controls have 24 px, and nothing has to be scrolled sideways.

    `make test` looks at the wide page in the dark and at the narrow one in the light, `make test-soak` at all four.
    """
    for size, theme in zip(SIZES, THEMES, strict=True):
        page.set_viewport_size(size)
        page.goto(path)
        page.wait_for_load_state("networkidle")
        if page.locator("#figure").count() and (figure := json.loads(page.locator("#figure").text_content() or "null")):
            schematic(figure)
            drawn(page)
        assert page.evaluate(NOT_SIDEWAYS), (page.url, size)
        accessible(page, sized((theme,), soak=THEMES))
        if size is SIZES[0]:
            for width in (1200, 1024, 768):
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_function(NOT_SIDEWAYS)


def schematic(figure: dict[str, Any]) -> None:
    """Hold a figure, its template among it, to plotly's own schema, with any colour in the place of the scheme's. Raises ValueError."""
    go.Figure(json.loads(re.sub(r"var\(--[\w-]+\)", "#123456", json.dumps(figure))))


def accessible(page: Page, themes: Sequence[Theme] = THEMES) -> None:
    """Hold what is shown to axe-core's rules; in the dark to those of colours, the only ones that a theme changes."""
    if not AXE.is_file():
        pytest.skip("axe-core is absent: `python -m deploy.assets --tests` fetches it where npm is installed")
    page.evaluate(AXE.read_text())  # not a script tag: the page's own policy would refuse that
    for theme in themes:
        in_theme(page, theme)
        violations: list[dict[str, Any]] = page.evaluate(RUN_AXE, "color-contrast" if theme == "dark" else "")
        said = [
            f"{each['impact']}: {each['id']}, {len(each['nodes'])} × {each['help']}: {[node['html'][:160] for node in each['nodes'][:4]]}"
            for each in violations
        ]
        assert not said, "\n".join([f"{page.url}, {theme}, {page.viewport_size}", *said])
    in_theme(page, "light")


def in_theme(page: Page, theme: Theme) -> None:
    """As a system of that theme has it. A chart is drawn again."""
    if page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (theme == "dark"):
        return
    drawn_before = times_drawn(page) if page.locator("#chart").count() else 0
    page.emulate_media(color_scheme=theme)
    if drawn_before:
        drawn(page, drawn_before + 1)
    page.evaluate(TRANSITIONS_END)
