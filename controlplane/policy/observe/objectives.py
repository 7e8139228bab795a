"""How objectives stand for each model and tier, as the controller has written it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.slo.models import ObjectiveState


@dataclass(frozen=True, slots=True)
class TierBurn:
    """Of the objective that burns fastest for a model's tier. None is unknown."""

    objective: str
    fast: float | None
    slow: float | None
    budget_left: float | None
    attainment: float | None
    at: datetime


def read() -> dict[tuple[str, str], TierBurn]:
    """By model and tier. An objective for all tiers of a model counts for each of them (its tier is empty), one for all models too."""
    burns: dict[tuple[str, str], TierBurn] = {}
    rows = ObjectiveState.objects.filter(objective__enabled=True).exclude(state=ObjectiveState.State.UNKNOWN)
    for slug, scope, at, document in rows.values_list("objective__slug", "scope", "at", "document"):
        if set(scope) - {"model", "tier"}:
            continue  # of a part of the tier's traffic, such as a region or a tenant
        key = (scope.get("model", ""), scope.get("tier", ""))
        burn = _burn(slug, document, at)
        if key not in burns or (burn.fast or 0.0) > (burns[key].fast or 0.0):
            burns[key] = burn
    return burns


def burning(slugs: Collection[str]) -> dict[str, list[tuple[Mapping[str, str], TierBurn]]]:
    """Of each of these objectives, how fast it burns by scope."""
    burns: dict[str, list[tuple[Mapping[str, str], TierBurn]]] = {}
    if slugs:
        rows = ObjectiveState.objects.filter(objective__enabled=True, objective__slug__in=slugs)
        rows = rows.exclude(state=ObjectiveState.State.UNKNOWN)
        for slug, scope, at, document in rows.values_list("objective__slug", "scope", "at", "document"):
            burns.setdefault(slug, []).append((scope, _burn(slug, document, at)))
    return burns


def find_burn(burns: Mapping[tuple[str, str], TierBurn], model: str, tier: str) -> TierBurn | None:
    """The most specific."""
    for key in ((model, tier), (model, ""), ("", tier), ("", "")):
        if key in burns:
            return burns[key]
    return None


def _burn(slug: str, document: Mapping[str, Any], at: datetime) -> TierBurn:
    """The shortest pair of windows is the fast one, and the longest the slow one. A pair burns as fast as the slower of its two
    windows, as multi-window alerts have it (SRE workbook, chapter 5); a window without requests burns nothing.
    """
    pairs = sorted(document.get("verdicts") or [], key=lambda pair: float(pair["long_s"]))
    rates = [min(float(pair["long"] or 0.0), float(pair["short"] or 0.0)) for pair in pairs]
    budget = document.get("budget") or {}
    return TierBurn(
        objective=slug,
        fast=rates[0] if rates else None,
        slow=rates[-1] if rates else None,
        budget_left=budget.get("left_share"),
        attainment=document.get("sli"),
        at=at,
    )
