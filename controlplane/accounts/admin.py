from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import ModelAdmin
from django.http import HttpRequest

from controlplane.accounts.models import ApiToken, SharedLink


@admin.register(ApiToken)
class ApiTokenAdmin(ModelAdmin):
    list_display = ["name", "user", "prefix", "created_at", "last_used_at", "expires_at"]
    search_fields = ["name", "prefix", "user__username"]
    readonly_fields = ["prefix", "created_at", "last_used_at"]
    fields = ["name", "user", "expires_at", "prefix", "created_at", "last_used_at"]

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        text = obj.renew()
        super().save_model(request, obj, form, change)
        self.message_user(request, f"Copy the token now, it is not shown again: {text}", messages.WARNING)


@admin.register(SharedLink)
class SharedLinkAdmin(ModelAdmin):
    """Links are made on the page that they show; here they are withdrawn."""

    list_display = ["path", "author", "created_at", "ends_at", "withdrawn"]
    list_filter = ["withdrawn"]
    search_fields = ["path", "author"]
    readonly_fields = ["path", "author", "created_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False
