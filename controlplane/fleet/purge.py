"""Purges cached answers. The number of purges is part of their keys: those from before are met by nobody, and Redis drops them in time."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest

from controlplane.fleet.models import LLMModel, Tenant


@transaction.atomic
def purge_answers(row: LLMModel | Tenant) -> int:
    """Of a model for all tenants, or of a tenant for all models that do not share their answers. Returns how often that was done.

    Gateways obey it with the next snapshot, within a second.
    """
    row.cache_purges = type(row)._default_manager.select_for_update().get(pk=row.pk).cache_purges + 1
    row.save(update_fields=["cache_purges"])
    return row.cache_purges


class PurgesAnswers:
    """For the admin of what has cached answers: models and tenants."""

    actions: Sequence[Any] | None = ("purge",)

    @admin.action(description="Purge the cached answers", permissions=["change"])
    def purge(self: Any, request: HttpRequest, queryset: Iterable[LLMModel | Tenant]) -> None:
        rows = list(queryset)
        for row in rows:
            purge_answers(row)
        names = ", ".join(map(str, rows))
        self.message_user(
            request, f"No gateway meets an answer again that was cached for {names} until now.", messages.SUCCESS
        )
