"""An incident as Markdown: what a postmortem begins with, so that nobody copies times by hand."""

from controlplane.incidents import telling, text
from controlplane.incidents.models import Incident


def postmortem(incident: Incident) -> str:
    facts, found = telling.facts(incident), incident.attribution or {}
    lines = [
        f"# Incident #{incident.pk}: {_plain(text.subject(facts))} {_plain(text.measured(facts))}",
        "",
        _plain(incident.summary),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_plain(value)} |" for name, value in _facts(incident)),
        "",
        "## What burned the budget",
        "",
    ]
    if found:
        lines += [f"- {one['stage']}: {text.share(one['share'])}" for one in found.get("stages") or []]
        lines += ["", "Who was affected:", ""]
        lines += [
            f"- {text.DIMENSION_NAMES.get(one['dimension'], one['dimension'])} `{_plain(one['value']) or 'unknown'}`: "
            f"{text.share(one['chosen_share'])} of the bad requests, {text.share(one['rest_share'])} of the others"
            for one in found.get("segments") or []
        ]
        lines += [
            f"- changed before: {_plain(one['summary'])}, {text.moment(one['at_ns'])}"
            for one in found.get("changes") or []
        ]
        lines += [f"- known cause: {_plain(one['summary'])}" for one in found.get("causes") or []]
        lines += [f"- trace `{one}`" for one in found.get("traces") or []]
    else:
        lines += [f"Not known: {incident.attribution_missing or 'nobody asked'}."]
    lines += ["", "## Timeline (UTC)", ""]
    for entry in incident.entries.all():
        via = f" via {entry.via}" if entry.via else ""
        said = f": {_plain(entry.text)}" if entry.text else ""
        lines += [f"- {entry.at:%Y-%m-%d %H:%M:%S} **{entry.get_kind_display()}** by {_plain(entry.by)}{via}{said}"]
    lines += ["", "## What went well", "", "## What went wrong", "", "## What we will do", ""]
    return "\n".join(lines)


def _facts(incident: Incident) -> list[tuple[str, str]]:
    found = [
        ("status", incident.status),
        ("severity", incident.severity),
        ("objective", incident.objective_name),
        ("scope", ", ".join(f"{name}={value}" for name, value in sorted(incident.scope.items())) or "all traffic"),
        ("owner", incident.owner),
        ("runbook", incident.runbook),
        ("first bad minute", _time(incident.since)),
        ("opened", _time(incident.opened_at)),
        (
            "acknowledged",
            f"{_time(incident.acknowledged_at)} by {incident.acknowledged_by}" if incident.acknowledged_at else "",
        ),
        ("resolved", f"{_time(incident.resolved_at)} by {incident.resolved_by}" if incident.resolved_at else ""),
        ("in Weir", telling.page_url(incident)),
    ]
    return [(name, value) for name, value in found if value]


def _time(at: object) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""


def _plain(text: str) -> str:
    """One line; what Markdown would read as markup stays text."""
    joined = " ".join(str(text).split())
    for character in "\\`*[]<>|":
        joined = joined.replace(character, f"\\{character}")
    return joined
