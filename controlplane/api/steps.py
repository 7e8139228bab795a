"""What REST answers of a change that somebody proposed, of a policy or of the fleet: how far it has come, and the next steps."""

from datetime import datetime
from typing import Any

from ninja import Field, Schema

from controlplane.core.documents.lifecycle import Facts, State, Step, possible


class ProposedOut(Schema):
    number: int
    state: State = Field(description="active: in force; retired: over, or withdrawn")
    author: str
    note: str
    restores: int | None = Field(description="The revision that it brings back")
    previewed_at: datetime | None
    approved_by: str
    approved_at: datetime | None


class StepsOut(ProposedOut):
    approval: list[str] = Field(description="Teams that want another person's approval")
    steps: list[Step] = Field(description="What the caller could do with it now, rights left aside")


def stepped(row: Any, number: int, facts: Facts, who: str) -> dict[str, Any]:
    """The fields of `StepsOut`. `row`: as it is stored."""
    stored = {name: getattr(row, name) for name in ProposedOut.model_fields if name not in ("number", "state")}
    steps = possible(facts, who)
    return {**stored, "number": number, "state": facts.state, "approval": facts.wanting, "steps": steps}
