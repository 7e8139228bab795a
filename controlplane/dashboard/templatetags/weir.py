"""Filters of the templates: numbers with their units, and the palette."""

from collections.abc import Callable
from typing import Any

from django import template
from django.template import defaultfilters

from controlplane.core.formatting import PAGE, iso
from controlplane.dashboard.core import palette
from controlplane.dashboard.core.zone import clock, minute, moment, shifted, which_of_two
from forecasting.gate import words

register = template.Library()


def _plain(method: Callable[[Any], str]) -> Callable[[Any], str]:
    """A function of one argument: Django counts the self of a bound method as one. A missing value comes as "", and is shown as None is."""
    return lambda value: method(None if value == "" else value)


for name in ("ms", "ns", "exact_ms", "share", "precise", "count", "rate", "duration", "times", "number", "usd", "size"):
    register.filter(name, _plain(getattr(PAGE, name)))
for function in (moment, clock, iso, shifted):
    register.filter(function.__name__, function)
register.filter("candidate", words)


@register.filter
def minute_of(at_s: int) -> str:
    return minute(at_s * 1_000_000_000)


@register.filter("date", expects_localtime=True)
def date(at: Any, form: str) -> str:
    """Django's own, with the zone's abbreviation in an hour that clocks show twice."""
    text = defaultfilters.date(at, form)
    return f"{text}{which_of_two(at)}" if text and "H" in form else text


@register.filter
def theme(cookie: str | None) -> str:
    """The theme a reader chose; "" leaves it to the system."""
    return cookie if cookie in ("dark", "light") else ""


@register.filter
def undo_of(tags: str | None) -> str:
    """The number of the incident that a message's tags offer to open again; empty for none."""
    return next((tag.removeprefix("undo-") for tag in (tags or "").split() if tag.startswith("undo-")), "")


@register.filter
def seconds(value: float | str | None) -> str:
    """A short time in seconds, with its unit: `0.42 ms`, `1.93 s`."""
    return PAGE.ms(None if value is None or isinstance(value, str) else value * 1000)


@register.filter
def days(value: float) -> str:
    """Days in the unit that suits them: `13.5 days`, `2.5 h`."""
    return f"{PAGE.number(value)} days" if value >= 2 else PAGE.duration(value * 86_400)


@register.filter
def hours(value: float) -> str:
    """Hours in the unit that suits them: `11 min`, `2.5 h`."""
    return PAGE.duration(value * 3_600)


@register.filter
def negated(value: float) -> float:
    return -value


@register.filter
def chance(value: float) -> str:
    """A probability to two significant figures: `0.43`, `0.0071`, `<0.0001`."""
    return "<0.0001" if value < 1e-4 else f"{value:.2g}"


@register.filter
def moved(change: Any) -> str:
    """What a change did to a count or a step: `3 → 4`, `held at 5`; empty for one that is about something else."""
    if change.before is None or change.after is None or change.kind in ("canary", "alarm"):
        return ""
    if change.before == change.after:
        return f"held at {change.after:g}"
    return f"{change.before:g} → {change.after:g}"


@register.filter
def policy_name(reference: str) -> str:
    """`scale-chat` of `scale-chat@3`."""
    return reference.rpartition("@")[0] or reference


@register.filter
def get(mapping: dict[str, object], key: str) -> object:
    return mapping.get(key)


@register.inclusion_tag("swatch.html")
def swatch(stage: str) -> dict[str, object]:
    """The stage's colour and pattern as a small square; the label beside it carries the meaning."""
    return {"stage": stage}


@register.inclusion_tag("stack.html")
def stack(stages: dict[str, int], unattributed_ns: int, of_ns: int) -> dict[str, object]:
    """One request's stages as a bar of `of_ns` full width."""
    parts: list[dict[str, object]] = []
    x = 0.0
    for stage in palette.BANDS:
        value = unattributed_ns if stage == palette.UNATTRIBUTED else stages.get(stage, 0)
        if value > 0 and of_ns > 0:
            width = 1000 * value / of_ns
            parts.append(
                {"stage": stage, "x": f"{x:.2f}", "width": f"{width:.2f}", "text": f"{stage} {PAGE.ns(value)}"}
            )
            x += width
    return {"parts": parts}
