"""How objectives stand for each model and tier, as the controller has written it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from controlplane.slo.models import ObjectiveState

EVERY = "*"
"""In place of a model or tier: an objective that is split by it could not be judged as a whole, so none of its values is known."""


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
    unmeasured_s: int = 0


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
    for its_model, its_tier in ((model, tier), (model, ""), ("", tier), ("", "")):
        keys = product({its_model, its_model and EVERY}, {its_tier, its_tier and EVERY})
        if every := [burn for key in keys for burn in burns.get(key, ())]:
            return every
    return []


def _read(**of: Any) -> Iterator[tuple[Mapping[str, str], TierBurn]]:
    rows = ObjectiveState.objects.filter(objective__enabled=True, **of)
    fields = "objective__slug", "objective__scope", "objective__split_by", "scope", "at", "state", "document"
    for slug, wanted, split_by, scope, at, state, document in rows.values_list(*fields):
        if state != ObjectiveState.State.UNKNOWN:
            yield scope, _burn(slug, document, at)
        else:
            yield _unjudged_scope(wanted, split_by, scope), TierBurn(slug, None, None, None, None, at, False)


def _unjudged_scope(wanted: Any, split_by: Any, scope: Mapping[str, str]) -> Mapping[str, str]:
    """Also of an objective that no split or scope can be read of: it has a row without a scope."""
    every = dict.fromkeys(map(str, split_by), EVERY) if isinstance(split_by, list) else {}
    given = {name: str(value) for name, value in wanted.items()} if isinstance(wanted, dict) else {}
    return every | given | dict(scope)


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
        unmeasured_s=(document.get("unmeasured") or {}).get("seconds", 0),
    )
