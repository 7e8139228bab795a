"""The admin of applied documents: read-only, because applying again changes them."""

from django.contrib import admin

from controlplane.accounts.admin_parts import ReadOnlyAdmin
from controlplane.slo.openslo.models import AppliedDocument


@admin.register(AppliedDocument)
class AppliedDocumentAdmin(ReadOnlyAdmin):
    list_display = ["name", "kind", "label", "source", "slug", "not_evaluated", "who", "applied_at"]
    list_filter = ["kind", "label"]
    search_fields = ["name", "slug", "source"]
