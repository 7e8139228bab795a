"""Decides when to page because objectives are not judged, and makes that notice."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from controlplane.core.formatting import capitalised
from controlplane.incidents.notify.core.notice import Link, Notice

SOURCE = "weir"
STOPPED_AFTER = timedelta(seconds=60)
"""For how long objectives may go unjudged."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is known of the controller's ticks. `judged_at`: the last tick in which anything could be judged, or the oldest
    tick where none could; None: it never ticked."""

    judged_at: datetime | None
    ticked_at: datetime | None = None
    error: str = ""  # of the latest tick


def stopped(evaluation: Evaluation, now: datetime, is_paged: bool) -> bool:
    """A controller that never ran has not stopped: the overview shows that it is missing. Without any tick on record, nothing changes."""
    if evaluation.judged_at is None:
        return is_paged
    return now - evaluation.judged_at > STOPPED_AFTER


def step(is_stopped: bool, is_paged: bool) -> Literal["trigger", "resolve"] | None:
    if is_stopped == is_paged:
        return None
    return "trigger" if is_stopped else "resolve"


def key(now: datetime) -> str:
    """Of the page; each stop has its own."""
    return f"weir-evaluation-stopped-{int(now.timestamp())}"


def notice(
    action: Literal["trigger", "resolve"], page_key: str, evaluation: Evaluation, now: datetime, url: str
) -> Notice:
    since = f"{evaluation.judged_at:%H:%M:%S} UTC" if evaluation.judged_at else "an unknown time"
    why = evaluation.error or (
        "the controller does not tick: check that its process runs and that its database answers"
        if evaluation.ticked_at == evaluation.judged_at
        else "the controller runs, but cannot judge anything"
    )
    summary = (
        f"Objectives have not been judged since {since}: no page of an objective comes until they are. {capitalised(why)}"
        if action == "trigger"
        else f"Objectives are judged again since {evaluation.judged_at:%H:%M:%S} UTC"
        if evaluation.judged_at
        else "Objectives are judged again"
    )
    return Notice(
        action=action,
        key=page_key,
        sequence=1 if action == "trigger" else 2,
        at=now,
        summary=summary,
        severity="critical",
        source=SOURCE,
        component="controller",
        kind="evaluation stopped",
        details={"last judged": since, "why": why, "what to do": "Start the controller; its log says why it stopped."},
        links=(Link(url, "Weir"),),
    )
