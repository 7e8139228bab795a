"""API keys of the gateway, where a request does not come through it."""

from django.db.models import Q

from controlplane.fleet.models import GatewayKey
from controlplane.lane.store import claims


def tenant_of(sha256: str) -> str | None:
    """Whose the key of this digest is; None of one that is none, disabled or expired."""
    valid = Q(expires_at=None) | Q(expires_at__gt=claims.now())
    return GatewayKey.objects.filter(valid, sha256=sha256, enabled=True).values_list("tenant__name", flat=True).first()
