"""Writes an incident as Markdown, to begin a postmortem with."""

from datetime import datetime

from controlplane.core.formatting import TEXT, minute
from controlplane.incidents.core import runbook
from controlplane.incidents.models import Incident
from controlplane.incidents.notify import notices
from controlplane.incidents.notify.core import page_text
from controlplane.incidents.report.timeline import timeline


def postmortem(incident: Incident) -> str:
    facts, attribution = notices.facts(incident), incident.attribution or {}
    lines = [
        f"# Incident #{incident.pk}: {plain(page_text.subject(facts))} {plain(page_text.measured(facts))}",
        "",
        plain(incident.summary),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {plain(value)} |" for name, value in _facts(incident)),
        "",
    ]
    lines += (
        ["## What was down", "", f"{plain(page_text.blame(facts))}."]
        if incident.component
        else ["## What burned the budget", ""]
    )
    if attribution:
        lines += [f"- {stage['stage']}: {TEXT.share(stage['share'])}" for stage in attribution.get("stages") or []]
        lines += ["", "Who was affected:", ""]
        lines += [
            f"- {page_text.DIMENSION_NAMES.get(segment['dimension'], segment['dimension'])} `{plain(segment['value']) or 'unknown'}`: "
            f"{TEXT.share(segment['chosen_share'])} of the bad requests, {TEXT.share(segment['rest_share'])} of the others"
            for segment in attribution.get("segments") or []
        ]
        lines += [f"- known cause: {plain(cause['summary'])}" for cause in attribution.get("causes") or []]
        lines += [f"- trace `{trace}`" for trace in attribution.get("traces") or []]
    elif not incident.component:
        lines += [f"Stage and segment are not known: {incident.attribution_missing or 'the store was not queried'}."]
    lines += [""] if incident.changes else []
    lines += [
        f"- changed before: {plain(change['summary'])}, {minute(change['at_ns'])} UTC" for change in incident.changes
    ]
    if steps := runbook.steps(incident.runbook_text):
        lines += ["", "## Runbook", "", *(_step(incident, step) for step in steps)]
    lines += ["", "## Timeline (UTC)", ""]
    for line in timeline(incident):
        via = f" via {line.via}" if line.via else ""
        said = f": {plain(line.text)}" if line.text else ""
        lines += [f"- {line.at:%Y-%m-%d %H:%M:%S} **{plain(line.title)}** by {plain(line.by)}{via}{said}"]
    lines += ["", "## What went well", "", "## What went wrong", "", "## What we will do", ""]
    return "\n".join(lines)


def _step(incident: Incident, step: runbook.Block) -> str:
    done = incident.steps_done.get(str(step.number))
    said = f" ({plain(done['by'])}, {_time(datetime.fromisoformat(done['at']))})" if done else ""
    return f"- [{'x' if done else ' '}] {step.number}. {plain(step.words)}{said}"


def _facts(incident: Incident) -> list[tuple[str, str]]:
    known = [
        ("status", incident.status),
        ("severity", incident.severity),
        ("component" if incident.component else "objective", incident.objective_name),
        ("scope", ", ".join(f"{name}={value}" for name, value in sorted(incident.scope.items())) or "all traffic"),
        ("owner", incident.owner),
        ("runbook", incident.runbook),
        ("down since" if incident.component else "first bad request", _time(incident.since)),
        ("opened", _time(incident.opened_at)),
        (
            "acknowledged",
            f"{_time(incident.acknowledged_at)} by {incident.acknowledged_by}" if incident.acknowledged_at else "",
        ),
        ("resolved", f"{_time(incident.resolved_at)} by {incident.resolved_by}" if incident.resolved_at else ""),
        ("in Weir", notices.page_url(incident)),
    ]
    return [(name, value) for name, value in known if value]


def _time(at: object) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else ""


def plain(text: str) -> str:
    """One line, with Markdown's characters escaped."""
    joined = " ".join(text.split())
    for character in "\\`*[]<>|":
        joined = joined.replace(character, f"\\{character}")
    return joined
