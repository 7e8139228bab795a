"""What Argo CD says of Weir's custom resources, by the rules in deploy/argocd, of the status that Weir writes."""

from dataclasses import dataclass
from typing import Any, get_args

import lupa.lua51
import msgspec
import pytest
import yaml
from django.utils import timezone

from controlplane.sources.core.resources import GROUP, Metadata, Outcome, Reason, Resource, status
from deploy.local.process import ROOT

HEALTH: dict[Reason, str] = {
    "Applied": "Healthy",
    "Invalid": "Degraded",
    "Conflict": "Degraded",
    "InUse": "Degraded",
    "Drifted": "Degraded",
    "WaitsForApproval": "Suspended",
}


@dataclass(frozen=True)
class Health:
    status: str
    message: str


def health(resource: Resource) -> Health:
    """As Argo CD runs it: Lua 5.1, with the object as `obj`."""
    config = yaml.safe_load((ROOT / "deploy/argocd/health.yaml").read_text())["data"]["resource.customizations"]
    script = yaml.safe_load(config)[f"{GROUP}/*"]["health.lua"]
    lua = lupa.lua51.LuaRuntime()
    lua.globals().obj = lua.table_from(msgspec.to_builtins(resource), recursive=True)
    said: Any = lua.execute(script)
    return Health(said["status"], said["message"])


@pytest.mark.parametrize("reason", get_args(Reason))
def test_health_follows_what_the_status_says(reason: Reason) -> None:
    resource = Resource(Metadata("chat", generation=3))
    said = status(Outcome(reason, "why"), resource, timezone.now())
    assert health(Resource(resource.metadata, status=said)) == Health(HEALTH[reason], "why")


def test_what_weir_has_not_read_yet_is_progressing() -> None:
    resource = Resource(Metadata("chat", generation=3))
    assert health(resource).status == "Progressing"
    older = status(Outcome("Applied", ""), Resource(Metadata(generation=2)), timezone.now())
    assert health(Resource(resource.metadata, status=older)).status == "Progressing"
