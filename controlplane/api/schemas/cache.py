"""Shapes of the cache."""

from ninja import Field

from controlplane.api.formats import Given, Name


class PurgeIn(Given):
    """One of both."""

    model: Name | None = Field(None, description="Its answers for all tenants")
    tenant: Name | None = Field(None, description="Its answers of all models that do not share them between tenants")


class PurgedOut(Given):
    purges: int = Field(description="How often its answers were purged")
