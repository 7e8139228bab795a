"""Purges cached answers. The number of purges is part of their keys: those from before are met by nobody, and Redis drops them in time."""

from django.db import transaction

from controlplane.fleet.models import LLMModel, Tenant


@transaction.atomic
def purge_answers(row: LLMModel | Tenant) -> int:
    """Of a model for all tenants, or of a tenant for all models that do not share their answers. Returns how often that was done.

    Gateways obey it with the next snapshot, within a second.
    """
    row.cache_purges = type(row)._default_manager.select_for_update().get(pk=row.pk).cache_purges + 1
    row.save(update_fields=["cache_purges"])
    return row.cache_purges
