"""An incident as Markdown: what a postmortem begins with, so that nobody copies times by hand."""

from controlplane.core.formatting import TEXT, minute
from controlplane.incidents.models import Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.report.timeline import timeline


def postmortem(incident: Incident) -> str:
    facts, found = notices.facts(incident), incident.attribution or {}
    lines = [
        f"# Incident #{incident.pk}: {_plain(page_text.subject(facts))} {_plain(page_text.measured(facts))}",
        "",
        _plain(incident.summary),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {_plain(value)} |" for name, value in _facts(incident)),
        "",
    ]
    lines += (
        ["## What was down", "", f"{_plain(page_text.blame(facts))}."]
        if incident.component
        else ["## What burned the budget", ""]
    )
    if found:
        lines += [f"- {one['stage']}: {TEXT.share(one['share'])}" for one in found.get("stages") or []]
        lines += ["", "Who was affected:", ""]
        lines += [
            f"- {page_text.DIMENSION_NAMES.get(one['dimension'], one['dimension'])} `{_plain(one['value']) or 'unknown'}`: "
            f"{TEXT.share(one['chosen_share'])} of the bad requests, {TEXT.share(one['rest_share'])} of the others"
            for one in found.get("segments") or []
        ]
        lines += [
            f"- changed before: {_plain(one['summary'])}, {minute(one['at_ns'])} UTC"
            for one in found.get("changes") or []
        ]
        lines += [f"- known cause: {_plain(one['summary'])}" for one in found.get("causes") or []]
        lines += [f"- trace `{one}`" for one in found.get("traces") or []]
    elif not incident.component:
        lines += [f"Not known: {incident.attribution_missing or 'nobody asked'}."]
    lines += ["", "## Timeline (UTC)", ""]
    for line in timeline(incident):
        via = f" via {line.via}" if line.via else ""
        said = f": {_plain(line.text)}" if line.text else ""
        lines += [f"- {line.at:%Y-%m-%d %H:%M:%S} **{_plain(line.title)}** by {_plain(line.by)}{via}{said}"]
    lines += ["", "## What went well", "", "## What went wrong", "", "## What we will do", ""]
    return "\n".join(lines)


def _facts(incident: Incident) -> list[tuple[str, str]]:
    found = [
        ("status", incident.status),
        ("severity", incident.severity),
        ("component" if incident.component else "objective", incident.objective_name),
        ("scope", ", ".join(f"{name}={value}" for name, value in sorted(incident.scope.items())) or "all traffic"),
        ("owner", incident.owner),
        ("runbook", incident.runbook),
        ("down since" if incident.component else "first bad minute", _time(incident.since)),
        ("opened", _time(incident.opened_at)),
        (
            "acknowledged",
            f"{_time(incident.acknowledged_at)} by {incident.acknowledged_by}" if incident.acknowledged_at else "",
        ),
        ("resolved", f"{_time(incident.resolved_at)} by {incident.resolved_by}" if incident.resolved_at else ""),
        ("in Weir", notices.page_url(incident)),
    ]
    return [(name, value) for name, value in found if value]


def _time(at: object) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""


def _plain(text: str) -> str:
    """One line; what Markdown would read as markup stays text."""
    joined = " ".join(text.split())
    for character in "\\`*[]<>|":
        joined = joined.replace(character, f"\\{character}")
    return joined
