"""What gateways want of callers, in the admin."""

from django import forms
from django.contrib import admin

from controlplane.accounts.admin_parts import RuledAdmin
from controlplane.fleet.models import TokenIssuer
from controlplane.fleet.models.issuers import ALGORITHMS


class TokenIssuerForm(forms.ModelForm):  # type: ignore[type-arg]
    algorithms = forms.MultipleChoiceField(
        choices=[(name, name) for name in ALGORITHMS],
        widget=forms.CheckboxSelectMultiple,
        help_text="That its tokens may be signed with. All have a public key: what can check a token cannot make one.",
    )


@admin.register(TokenIssuer)
class TokenIssuerAdmin(RuledAdmin):
    form = TokenIssuerForm
    list_display = ["name", "issuer", "audience", "all_tenants", "enabled"]
    search_fields = ["name", "issuer"]
    autocomplete_fields = ["tenants"]
    fieldsets = [
        (None, {"fields": ["name", "enabled", "issuer", "audience", "jwks_url", "algorithms"]}),
        ("Claims of its tokens", {"fields": ["tenant_claim", "tier_claim", "user_claim"]}),
        ("Tenants", {"fields": ["all_tenants", "tenants"]}),
    ]
