"""Purges cached answers. The number of purges is part of their keys: those from before are met by nobody, and Redis drops them in time."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest

from controlplane.accounts.admin_parts import RuledAdmin
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.fleet.models import CachePurge, LLMModel, Tenant

MAX_TAGS = 10_000
"""Tags and keys of which it is known how often they were purged: gateways have them all in memory."""


@transaction.atomic
def purge_answers(row: LLMModel | Tenant | CachePurge) -> int:
    """Of a model for all tenants, of a tenant for all models that do not share their answers, or as the row says. Returns how often that
    was done.

    Gateways obey it with the next snapshot, within a second.
    """
    row.cache_purges = type(row)._default_manager.select_for_update().get(pk=row.pk).cache_purges + 1
    row.save(update_fields=["cache_purges"])
    return row.cache_purges


@transaction.atomic
def purge_version(model: LLMModel, prompt_version: str) -> int:
    """The answers of one prompt version of a model, the present or another. Raises ValidationError."""
    return _purge(CachePurge(model=model, prompt_version=prompt_version))


@transaction.atomic
def purge_tag(tag: str) -> int:
    """The answers to requests that name the tag, of all tenants and models; of the key of an answer, that one. Raises ValidationError."""
    return _purge(CachePurge(tag=tag))


def _purge(given: CachePurge) -> int:
    known = CachePurge.objects.filter(tag=given.tag, model=given.model, prompt_version=given.prompt_version).first()
    if known is not None:
        return purge_answers(known)
    given.full_clean()
    if given.tag and CachePurge.objects.exclude(tag="").count() >= MAX_TAGS:
        raise ValidationError(
            f"{MAX_TAGS:,} tags and keys were purged already: purge the model whose answers they are, or use fewer tags."
        )
    given.save()
    return given.cache_purges


class PurgesAnswers:
    """For the admin of what has cached answers."""

    actions: Sequence[Any] | None = ("purge",)

    @admin.action(description="Purge the cached answers", permissions=["change"])
    def purge(self: Any, request: HttpRequest, queryset: Iterable[LLMModel | Tenant | CachePurge]) -> None:
        rows = list(queryset)
        for row in rows:
            purge_answers(row)
        names = ", ".join(map(str, rows))
        self.message_user(
            request, f"No gateway meets an answer again that was cached for {names} until now.", messages.SUCCESS
        )


@admin.register(CachePurge)
class CachePurgeAdmin(PurgesAnswers, RuledAdmin):
    """To add one is the first purge. None is deleted: what was purged would be met again."""

    edits = EDIT_FLEET
    list_display = ["__str__", "cache_purges"]
    autocomplete_fields = ["model"]
    search_fields = ["tag", "model__name", "prompt_version"]

    def get_readonly_fields(self, request: HttpRequest, obj: CachePurge | None = None) -> list[str]:
        return ["tag", "model", "prompt_version"] if obj else []

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False
