"""Limits of tenants in the admin. Batches have a screen of their own."""

from django.contrib import admin

from controlplane.lane.models import TenantLimits


@admin.register(TenantLimits)
class TenantLimitsAdmin(admin.ModelAdmin):
    list_display = ["__str__", "max_lines", "max_stored_bytes", "retention_days", "job_retention_hours"]
