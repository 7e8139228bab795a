"""What the preview of a proposed change of the fleet counted, as tables, and what it cannot know, as sentences."""

from collections.abc import Mapping
from typing import Any

from controlplane.core.formatting import MISSING, PAGE
from controlplane.dashboard.core.preview_tables import Table

NOTE = (
    "Decided request by request as gateways do, by the fleet of now and by the proposal. A pool is taken to be as good as it was recorded; "
    "a fuller one is slower. Left out are limits and budgets of keys, ladders, canaries and failovers."
)
OBJECTIVES = ("objective", "target", "good, as recorded", "the proposal", "requests of which it is unknown")


def tables_of(preview: Mapping[str, Any]) -> list[Table]:
    """Of a preview with requests in it; a table without rows is left out."""
    cache, cost = preview["cache"], preview["cost"]
    kept = cache["answered"] - cache["lost"]
    after = PAGE.count(kept) if not cache["unknown"] else f"{PAGE.count(kept - cache['unknown'])} to {PAGE.count(kept)}"
    rows = [
        (f"refused: {each['why']}", PAGE.count(each["before"]), PAGE.count(each["after"]))
        for each in preview["refused"]
    ]
    if cache["answered"]:
        rows.append(("answered by the cache", PAGE.count(cache["answered"]), after))
    if cost["requests"]:
        rows.append(
            (f"cost of {PAGE.counted(cost['requests'], 'request')}", PAGE.usd(cost["before"]), PAGE.usd(cost["after"]))
        )
    pools = [
        (each["pool"], each["variant"], PAGE.count(round(each["before"])), PAGE.count(round(each["after"])))
        for each in preview["pools"]
    ]
    objectives = [
        (
            each["slug"],
            PAGE.precise(each["target"]),
            PAGE.precise(each["before"]),
            _between(each["after"]),
            PAGE.count(each["unknown"]),
        )
        for each in preview["objectives"]
    ]
    numbers = (False, True, True)
    tables = [
        Table("Requests", ("", "the fleet of now", "the proposal"), numbers, rows),
        Table("Pools", ("pool", "variant", "the fleet of now", "the proposal"), (False, *numbers), pools),
        Table("Objectives", OBJECTIVES, (False, True, True, True, True), objectives),
    ]
    return [table for table in tables if table.rows]


def unknown_of(preview: Mapping[str, Any]) -> list[str]:
    cache, cost = preview["cache"], preview["cost"]
    lines: dict[str, str | int] = {
        "{} answered from the cache: whether they would still be. Keys and ages of stored answers are not recorded.": cache[
            "unknown"
        ],
        "{} that a limit refused: they would pass, and how long they would take is not known.": preview["passes"],
        "{} of unknown cost: a price or a count of tokens is missing.": cost["unknown"],
        "How fast {} is: none of these requests was sent there.": ", ".join(preview["never_served"]),
        "Not replayed, because no recorded request shows it: {}.": "; ".join(preview["not_replayed"]),
        "Objectives of histograms or costs, or beyond the first hundred: {}.": ", ".join(
            preview["unjudged_objectives"]
        ),
    }
    said = {
        line: PAGE.counted(value, "request") if isinstance(value, int) else value
        for line, value in lines.items()
        if value
    }
    return [line.format(value) for line, value in said.items()]


def _between(bounds: list[float] | None) -> str:
    if bounds is None:
        return MISSING
    least, most = map(PAGE.precise, bounds)
    return least if least == most else f"{least} to {most}"
