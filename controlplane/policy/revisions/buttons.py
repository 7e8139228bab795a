"""What the steps are called on buttons, and what is said once one was taken."""

from collections.abc import Mapping

from controlplane.policy.models import PolicyRevision
from controlplane.policy.revisions.core.lifecycle import RevisionFacts, RevisionStep

BUTTONS: Mapping[RevisionStep, tuple[str, str]] = {
    "preview": ("Preview", "Run it over recorded traffic, beside what is in force"),
    "shadow": ("Put in shadow", "It decides and records, and does not act"),
    "approve": ("Approve", "By another person than its author"),
    "activate": ("Activate", "In force from the next tick on"),
    "retire": ("Retire", "Take it out of force, or withdraw it"),
    "keep": ("Keep in force", "Its retirement is withdrawn, or rejected where another person proposed it"),
}
SAID: Mapping[RevisionStep, str] = {
    "preview": "The preview has begun: its figures appear here.",
    "shadow": "It is in shadow from the next tick on.",
    "approve": "It is approved, and can be activated.",
    "activate": "It is in force from the next tick on.",
    "retire": "It is retired.",
    "keep": "It stays in force.",
}


def button(step: RevisionStep, facts: RevisionFacts) -> tuple[str, str]:
    """Its words, and what it means for this revision."""
    if step == "approve" and facts.retirement_by:
        return "Approve its retirement", f"Out of force from the next tick on: {facts.retirement_by} proposed it"
    if step == "retire" and facts.state == "active" and facts.needs_approval:
        return "Propose to retire it", "It stays in force until another person has approved that"
    return BUTTONS[step]


def is_confirmed(step: RevisionStep, facts: RevisionFacts) -> bool:
    """Whether it is done only once the person has said so again, because it changes what is in force."""
    return step in ("activate", "retire", "keep") or bool(step == "approve" and facts.retirement_by)


def said(step: RevisionStep, revision: PolicyRevision) -> str:
    """`revision`: as the step left it."""
    if step == "retire" and revision.waits_for_retirement:
        return "It stays in force until another person has approved its retirement."
    return SAID["retire" if revision.state == PolicyRevision.State.RETIRED else step]
