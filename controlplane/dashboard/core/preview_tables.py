"""What a preview measured, as rows and tables: the revision beside the one in force."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.formatting import MISSING, PAGE

Form = Callable[[Any], str]
COMPARED: Mapping[str, Mapping[str, tuple[str, Form]]] = {
    "Scaling": {
        "attainment": ("objective attained", PAGE.precise),
        "gpu_hours": ("GPU-hours", PAGE.number),
        "usd": ("cost", PAGE.usd),
        "flaps": ("flaps", PAGE.number),
        "most_replicas": ("most replicas", PAGE.number),
    },
    "Routing": {
        "e2e_p50_ms": ("expected E2E, p50", PAGE.ms),
        "e2e_p95_ms": ("expected E2E, p95", PAGE.ms),
        "usd": ("cost of replicas", PAGE.usd),
    },
    "Degradation": {
        "changes": ("steps entered", PAGE.count),
        "degraded_s": ("time degraded, over all tiers", PAGE.duration),
        "requests": ("requests of degraded tiers", PAGE.count),
        "changed": ("requests changed or refused", PAGE.count),
    },
    "Canary": {
        "most_hours": ("time at most", lambda hours: PAGE.duration(hours * 3_600)),
        "max_requests": ("requests of the candidate at most", PAGE.count),
        "requests_needed": ("requests that show an equal one", PAGE.count),
    },
}
"""By kind: figures of a side, their words, and how they are written."""


class Table(NamedTuple):
    """`numbers` says which columns are right-aligned. The first column heads its row."""

    title: str
    columns: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: Sequence[tuple[str, ...]]

    @property
    def head(self) -> list[tuple[str, bool]]:
        return list(zip(self.columns, self.numbers, strict=True))

    @property
    def body(self) -> list[list[tuple[str, bool]]]:
        return [list(zip(row, self.numbers, strict=True)) for row in self.rows]


def preview_rows(preview: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each figure of either side; empty where there was no preview."""
    own, current = (preview.get(side) or {} for side in ("revision", "current"))
    figures = COMPARED.get(preview.get("kind", "Scaling"), {})
    return [
        {"words": words, "own": _formed(form, own.get(name)), "current": _formed(form, current.get(name))}
        for name, (words, form) in figures.items()
        if name in own or name in current
    ]


def preview_tables(preview: Mapping[str, Any]) -> list[Table]:
    """What stands beside the figures of either side."""
    match preview.get("kind"):
        case "Routing":
            return list(_routing(preview))
        case "Degradation":
            return [_steps(side, words) for side, words in _sides(preview)]
        case "Canary":
            return [_canary_steps(preview["revision"])] if "revision" in preview else []
        case _:
            return []


def _sides(preview: Mapping[str, Any]) -> Sequence[tuple[Mapping[str, Any], str]]:
    in_force = f"in force (revision {preview['current_revision']})" if preview.get("current_revision") else "no policy"
    sides = (("revision", "this revision"), ("current", in_force))
    return [(preview[side], words) for side, words in sides if preview.get(side)]


def _routing(preview: Mapping[str, Any]) -> Sequence[Table]:
    tables = []
    for side, words in _sides(preview):
        rows = [
            (
                each["rule"] or "no rule",
                PAGE.count(each["requests"]),
                PAGE.share(each["share"]),
                PAGE.ms(each["e2e_p95_ms"]),
                PAGE.count(each["shortened"]),
                ", ".join(f"{tier or 'none'} {PAGE.count(count)}" for tier, count in each["tiers"].items()) or MISSING,
            )
            for each in side["rules"]
        ]
        columns = ("rule", "requests", "share", "expected p95", "cut short", "of tiers")
        tables.append(Table(f"What each rule takes: {words}", columns, (False, True, True, True, True, False), rows))
    tables.append(_pools(preview))
    for side, words in _sides(preview):
        if failovers := side.get("failovers"):
            spells = [
                (
                    each["failover"],
                    PAGE.count(each["entered"]),
                    PAGE.duration(each["active_s"]),
                    ", ".join(each.get("unmoved_tenants", ())) or MISSING,
                )
                for each in failovers
            ]
            heads = ("failover", "begun", "active", "tenants that it cannot move")
            tables.append(Table(f"Failovers: {words}", heads, (False, True, True, False), spells))
    return tables


def _pools(preview: Mapping[str, Any]) -> Table:
    sides = [
        {each["pool"]: each for each in (preview.get(side) or {}).get("pools", ())} for side in ("revision", "current")
    ]
    rows = []
    for name in {**sides[0], **sides[1]}:
        own, current = (side.get(name, {}) for side in sides)
        known = own or current
        rows.append(
            (
                name,
                f"{known['variant']}, {known['region']}",
                PAGE.count(own.get("requests", 0)),
                PAGE.share(own.get("share", 0.0)),
                PAGE.count(current.get("requests", 0)),
                PAGE.ms(own.get("e2e_p95_ms")),
                PAGE.rate(own.get("busiest_hour_rps", 0.0)),
                PAGE.rate(known["carries_rps"]),
                PAGE.usd(own.get("usd")),
            )
        )
    columns = (
        "pool",
        "variant, region",
        "requests",
        "share",
        "in force",
        "expected p95",
        "busiest hour",
        "its replicas carry",
        "cost",
    )
    return Table(
        "Where requests go, without those that the cache answered", columns, (False, False, *(True,) * 7), rows
    )


def _steps(side: Mapping[str, Any], words: str) -> Table:
    rows = [
        (
            f"{each['tier']}, {each['step']} {each['name']}",
            PAGE.count(each["entered"]),
            PAGE.duration(each["seconds"]),
            PAGE.share(each["share_of_time"]),
            PAGE.count(each["requests"]),
            PAGE.count(each["changed"]),
            PAGE.share(each["changed_share"]),
            PAGE.share(each["entered_cost"]),
        )
        for each in side["steps"]
    ]
    columns = (
        "tier and step",
        "entered",
        "for",
        "of the time",
        "requests",
        "changed or refused",
        "share",
        "share as entered",
    )
    return Table(f"Each step: {words}", columns, (False, *(True,) * 7), rows)


def _canary_steps(own: Mapping[str, Any]) -> Table:
    steps = [
        (f"{each['percent']} %", PAGE.count(each["requests"]), PAGE.duration(each["hours"] * 3_600))
        for each in own["steps"]
    ]
    return Table(
        "Steps, while nothing is decided", ("share of the candidate", "requests", "time"), (False, True, True), steps
    )


def _formed(form: Form, value: Any) -> str:
    return MISSING if value is None else form(value)
