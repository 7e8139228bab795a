from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from controlplane.accounts.admin_parts import IssuedAdmin, RuledAdmin, RuledInline
from controlplane.accounts.core.actions import ADMINISTER
from controlplane.accounts.core.scopes import READ, SCOPES
from controlplane.accounts.models import ApiToken, Membership, SharedLink


class ApiTokenForm(forms.ModelForm):
    scopes = forms.MultipleChoiceField(
        choices=[(name, f"{name}: {what}") for name, what in SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
        initial=[READ],
        help_text="What it may be used for, as far as its user may.",
    )


class PeopleAdmin(RuledAdmin):
    """Of people and what they log in with: administrators' alone, also to look at."""

    sees = ADMINISTER


@admin.register(ApiToken)
class ApiTokenAdmin(IssuedAdmin, PeopleAdmin):
    form = ApiTokenForm
    list_display = ["name", "user", "may", "prefix", "created_at", "last_used_at", "expires_at"]
    search_fields = ["name", "prefix", "user__username"]
    readonly_fields = ["prefix", "created_at", "last_used_at"]
    fields = ["name", "user", "scopes", "expires_at", "prefix", "created_at", "last_used_at"]

    @admin.display(description="scopes")
    def may(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)


class MembershipInline(RuledInline):
    """Who is in the team, or in which teams the person is, as what."""

    model = Membership
    extra = 0


@admin.register(Membership)
class MembershipAdmin(PeopleAdmin):
    list_display = ["user", "role", "team"]
    list_filter = ["team", "role"]
    search_fields = ["user__username", "team__name"]
    autocomplete_fields = ["team", "user"]


@admin.register(SharedLink)
class SharedLinkAdmin(PeopleAdmin):
    """Links are made on the page that they show; here they are withdrawn."""

    list_display = ["path", "author", "created_at", "ends_at", "withdrawn"]
    list_filter = ["withdrawn"]
    search_fields = ["path", "author"]
    readonly_fields = ["path", "author", "created_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


admin.site.unregister(
    [User, Group]
)  # Django's: people have roles in teams, and neither groups nor permissions of their own


@admin.register(User)
class PersonAdmin(PeopleAdmin, UserAdmin):
    list_display = ["username", "is_active", "is_superuser", "last_login"]
    list_filter = ["is_superuser", "is_active", "memberships__team", "memberships__role"]
    filter_horizontal = ()
    inlines = [MembershipInline]
    fieldsets = [
        (None, {"fields": ["username", "password"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        (
            "Is",
            {
                "fields": ["is_active", "is_superuser"],
                "description": "A superuser is an administrator: may do everything.",
            },
        ),
        ("Dates", {"fields": ["last_login", "date_joined"]}),
    ]

    def get_inlines(self, request: HttpRequest, obj: User | None) -> list[type[RuledInline]]:
        """Not yet where a person is added: Django asks for the name and the password alone."""
        return [MembershipInline] if obj else []
