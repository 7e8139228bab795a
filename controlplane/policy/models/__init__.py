"""Revisions of policies, what each tick decided and did, and what people say while it runs: pauses and overrides."""

from controlplane.policy.models.decision import Action, DecisionChange, DecisionRecord, Memory, Spent
from controlplane.policy.models.people import Override, Pause
from controlplane.policy.models.revision import PolicyRevision, RevisionEvent

__all__ = [
    "Action",
    "DecisionChange",
    "DecisionRecord",
    "Memory",
    "Override",
    "Pause",
    "PolicyRevision",
    "RevisionEvent",
    "Spent",
]
