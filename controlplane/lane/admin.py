"""Limits of tenants and secrets of callbacks in the admin. Batches have a screen of their own."""

from typing import Any

from django.contrib import admin, messages
from django.forms import ValidationError
from django.http import HttpRequest

from controlplane.accounts.admin_parts import ReadOnlyAdmin, RuledAdmin
from controlplane.accounts.core.actions import ADMINISTER
from controlplane.core.formatting import capitalised
from controlplane.incidents.notify.delivery.destinations import webhook
from controlplane.incidents.notify.delivery.forms import HookSecretForm
from controlplane.lane.models import Callback, CallbackSecret, TenantLimits


@admin.register(TenantLimits)
class TenantLimitsAdmin(RuledAdmin):
    list_display = ["__str__", "max_lines", "max_stored_bytes", "retention_days", "job_retention_hours", "callback_url"]


class CallbackSecretForm(HookSecretForm):
    class Meta:
        model = CallbackSecret
        fields = ["tenant", "secret"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "secret" in self.fields:
            self.fields["secret"].required = False
            self.fields["secret"].help_text = "Empty makes one, which is shown once."

    def clean_secret(self) -> str:
        secret: str = self.cleaned_data["secret"] or webhook.new_secret()
        try:
            webhook.key(secret)
        except ValueError as error:
            raise ValidationError(f"{capitalised(str(error))}.") from None
        return secret


@admin.register(CallbackSecret)
class CallbackSecretAdmin(RuledAdmin):
    """A secret is never changed: without it, the tenant's next job with a callback is answered with a new one."""

    sees = ADMINISTER
    form = CallbackSecretForm
    list_display = ["tenant", "created_at"]

    def get_fields(self, request: HttpRequest, obj: CallbackSecret | None = None) -> list[str]:
        """Django would show the secret of a row that nobody may change."""
        return ["tenant", "created_at"] if obj else ["tenant", "secret"]

    def has_change_permission(self, request: HttpRequest, obj: CallbackSecret | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: CallbackSecret, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not form.data.get("secret"):
            secret = form.cleaned_data["secret"]
            self.message_user(
                request, f"Copy the signing secret now, it is not shown again: {secret}", messages.WARNING
            )


@admin.register(Callback)
class CallbackAdmin(ReadOnlyAdmin):
    list_display = ["job", "state", "attempts", "due_at", "status", "error"]
    list_filter = ["state"]
    search_fields = ["job__name", "job__tenant"]
    list_select_related = ["job"]
