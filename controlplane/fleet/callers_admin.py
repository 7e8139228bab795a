"""What gateways want of callers, in the admin."""

from django import forms
from django.contrib import admin

from controlplane.accounts.admin_parts import GuidedAdmin, IssuedAdmin, RuledAdmin
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.fleet.models import GatewayKey, GuardRule, TokenIssuer
from controlplane.fleet.models.issuers import ALGORITHMS
from controlplane.fleet.spent import spent_usd


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


class GuardRuleForm(forms.ModelForm):  # type: ignore[type-arg]
    patterns = forms.MultipleChoiceField(
        choices=[
            ("card", "numbers of payment cards"),
            ("key", "keys of well-known services"),
            ("mail", "mail addresses"),
        ],
        widget=forms.CheckboxSelectMultiple,
        required=False,
    )


@admin.register(GuardRule)
class GuardRuleAdmin(GuidedAdmin):
    """Administrators' alone: a moderation is sent texts, and a secret of the gateways."""

    form = GuardRuleForm
    list_display = ["__str__", "kind", "action", "requests", "answers", "enabled"]
    list_filter = ["kind", "action", "enabled", "tenant"]
    search_fields = ["name", "tenant__name"]
    autocomplete_fields = ["tenant", "tiers"]
    fields = [
        "tenant", "name", "enabled", "kind", "patterns", "max_chars", "url", "credential", "timeout_ms", "is_open", "action", "requests",
        "answers", "tiers",
    ]  # fmt: skip
    shown_when = {
        "patterns": "kind=patterns",
        "max_chars": "kind=length",
        **dict.fromkeys(("url", "credential", "timeout_ms", "is_open"), "kind=moderation"),
    }


@admin.register(GatewayKey)
class GatewayKeyAdmin(IssuedAdmin):
    edits = EDIT_FLEET
    list_display = ["name", "tenant", "prefix", "created_at", "expires_at", "enabled"]
    list_filter = ["enabled", "tenant"]
    search_fields = ["name", "prefix", "tenant__name"]
    autocomplete_fields = ["tenant", "only_models"]
    readonly_fields = ["spent", "prefix", "created_at"]
    fields = [
        "tenant", "name", "enabled", "requests_per_minute", "tokens_per_minute", "max_in_flight", "usd_per_day", "usd_per_month", "spent",
        "only_models", "expires_at", "names_region", "prefix", "created_at",
    ]  # fmt: skip

    @admin.display(description="spent")
    def spent(self, key: GatewayKey) -> str:
        if not (key.usd_per_day or key.usd_per_month):
            return "Not counted: it has no budget."
        [known] = spent_usd([key])
        if known is None:
            return "Not known: Redis, where gateways count it, does not answer."
        return f"{known['usd_day']:,.4f} USD today, {known['usd_month']:,.4f} USD this month (UTC)"
