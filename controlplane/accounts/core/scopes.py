"""What an API token may be used for: its scopes narrow the rights of its user, and never widen them. Each action (`actions`) names those
that cover it."""

from collections.abc import Collection, Mapping
from typing import Literal

Scope = Literal["read", "respond", "objectives", "policies", "plan", "fleet", "scores", "admin"]
SCOPES: Mapping[Scope, str] = {
    "read": "read what the API and /metrics show, but for the audit",
    "respond": "acknowledge, resolve and annotate incidents, silence, record changes",
    "objectives": "edit objectives and maintenance windows",
    "policies": "propose, approve, activate, pause and override policies",
    "plan": "start and cancel jobs of the plan",
    "fleet": "cancel and retry batches, purge cached answers, record changes of what is served",
    "scores": "send scores of answers",
    "admin": "whatever its user may do",
}
EVERYDAY: tuple[Scope, ...] = ("read", "respond", "objectives", "policies", "plan", "fleet", "scores")
READ: Scope = "read"
ADMIN: Scope = "admin"


def unknown(scopes: Collection[str]) -> list[str]:
    return sorted(set(scopes) - SCOPES.keys())
