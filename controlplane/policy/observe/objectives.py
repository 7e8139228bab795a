"""How objectives stand for each model and tier, as the controller has written it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.slo.models import ObjectiveState


@dataclass(frozen=True, slots=True)
class TierBurn:
    """Of an objective, for a model's tier. None is unknown."""

    objective: str
    fast: float | None
    slow: float | None
    budget_left: float | None
    attainment: float | None
    at: datetime
    is_judged: bool = True


def read() -> dict[tuple[str, str], list[TierBurn]]:
    """By model and tier. An objective for all tiers of a model counts for each of them (its tier is empty), one for all models too."""
    burns: dict[tuple[str, str], list[TierBurn]] = {}
    for scope, burn in _read():
        if not set(scope) - {"model", "tier"}:  # else of a part of the tier's traffic, such as a region or a tenant
            burns.setdefault((scope.get("model", ""), scope.get("tier", "")), []).append(burn)
    return burns


def burning(slugs: Collection[str]) -> dict[str, list[tuple[Mapping[str, str], TierBurn]]]:
    """Of each of these objectives, how fast it burns by scope."""
    burns: dict[str, list[tuple[Mapping[str, str], TierBurn]]] = {}
    if slugs:
        for scope, burn in _read(objective__slug__in=slugs):
            burns.setdefault(burn.objective, []).append((scope, burn))
    return burns


def burns_of(burns: Mapping[tuple[str, str], list[TierBurn]], model: str, tier: str) -> list[TierBurn]:
    """The most specific, whether they are judged or not."""
    return next((burns[key] for key in ((model, tier), (model, ""), ("", tier), ("", "")) if key in burns), [])


def _read(**of: Any) -> Iterator[tuple[Mapping[str, str], TierBurn]]:
    rows = ObjectiveState.objects.filter(objective__enabled=True, **of)
    for slug, scope, at, state, document in rows.values_list("objective__slug", "scope", "at", "state", "document"):
        is_judged = state != ObjectiveState.State.UNKNOWN
        yield scope, _burn(slug, document, at) if is_judged else TierBurn(slug, None, None, None, None, at, False)


def _burn(slug: str, document: Mapping[str, Any], at: datetime) -> TierBurn:
    """The shortest pair of windows is the fast one, and the longest the slow one. A pair burns as fast as the slower of its two
    windows, as multi-window alerts have it (SRE workbook, chapter 5); a window without requests burns nothing. How fast one burns that
    was mostly not measured is not known, unless what was measured fires.
    """
    pairs = sorted(document.get("verdicts") or [], key=lambda pair: float(pair["long_s"]))
    rates = [
        min(float(pair["long"] or 0.0), float(pair["short"] or 0.0))
        if pair.get("measured", True) or pair["fires"]
        else None
        for pair in pairs
    ]
    budget = document.get("budget") or {}
    return TierBurn(
        objective=slug,
        fast=rates[0] if rates else None,
        slow=rates[-1] if rates else None,
        budget_left=budget.get("left_share"),
        attainment=document.get("sli"),
        at=at,
        is_judged=None not in rates,
    )
