from typing import Any

import allauth.account.admin
import allauth.mfa.admin
import allauth.socialaccount.admin
import allauth.usersessions.admin  # noqa: F401  (registers what is unregistered below)
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.accounts.admin_parts import IssuedAdmin, RuledAdmin, RuledInline, Suggesting
from controlplane.accounts.core.actions import ADMINISTER
from controlplane.accounts.core.scopes import READ, SCOPES
from controlplane.accounts.login.provider import mappings
from controlplane.accounts.models import (
    ApiToken,
    BreakGlass,
    GroupMapping,
    Membership,
    ProviderAccount,
    SharedLink,
    TenantMembership,
)


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
    list_display = ["name", "user", "may", "team", "prefix", "created_at", "last_used_at", "expires_at"]
    search_fields = ["name", "prefix", "user__username"]
    readonly_fields = ["prefix", "created_at", "last_used_at"]
    fields = ["name", "user", "scopes", "team", "expires_at", "prefix", "created_at", "last_used_at"]

    @admin.display(description="scopes")
    def may(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)


class MembershipInline(RuledInline):
    """Who is in the team, or in which teams the person is, as what."""

    model = Membership
    extra = 0


class TenantMembershipInline(RuledInline):
    """Whose figures the person sees."""

    model = TenantMembership
    extra = 0
    autocomplete_fields = ["tenant"]


class BreakGlassInline(RuledInline):
    """Whether the person may log in by a password when the provider is down, and why."""

    model = BreakGlass
    extra = 0


@admin.register(Membership)
class MembershipAdmin(PeopleAdmin):
    list_display = ["user", "role", "team"]
    list_filter = ["team", "role"]
    search_fields = ["user__username", "team__name"]
    autocomplete_fields = ["team", "user"]


@admin.register(TenantMembership)
class TenantMembershipAdmin(PeopleAdmin):
    list_display = ["user", "tenant"]
    list_filter = ["tenant"]
    search_fields = ["user__username", "tenant__name"]
    autocomplete_fields = ["tenant", "user"]


@admin.register(GroupMapping)
class GroupMappingAdmin(PeopleAdmin):
    """Counts from each person's next request on."""

    list_display = ["group", "provider", "role", "team", "tenant"]
    list_filter = ["provider", "team", "role"]
    search_fields = ["group", "team__name", "tenant__name"]
    autocomplete_fields = ["team", "tenant"]

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "group":
            kwargs["widget"] = Suggesting(_named_groups)
        if db_field.name == "provider":
            kwargs["widget"] = Suggesting(lambda: [each.id for each in settings.CONFIG.providers])
        return super().formfield_for_dbfield(db_field, request, **kwargs)


def _named_groups() -> list[str]:
    """What providers have named so far."""
    return sorted({group for groups in ProviderAccount.objects.values_list("groups", flat=True) for group in groups})


@admin.register(SharedLink)
class SharedLinkAdmin(PeopleAdmin):
    """Links are made on the page that they show; here they are withdrawn."""

    list_display = ["path", "author", "created_at", "ends_at", "withdrawn"]
    list_filter = ["withdrawn"]
    search_fields = ["path", "author"]
    readonly_fields = ["path", "author", "created_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False


# Django's and allauth's: people have roles in teams, and neither groups nor permissions; what they log in with is theirs.
admin.site.unregister([User, Group, EmailAddress, Authenticator, UserSession, SocialAccount, SocialApp, SocialToken])


@admin.register(User)
class PersonAdmin(PeopleAdmin, UserAdmin):
    list_display = ["username", "is_active", "is_superuser", "last_login"]
    list_filter = ["is_superuser", "is_active", "memberships__team", "memberships__role"]
    filter_horizontal = ()
    inlines = [MembershipInline, TenantMembershipInline, BreakGlassInline]
    actions = ["remove_second_factors", "end_sessions"]
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
        ("By groups at providers", {"fields": ["by_groups"]}),
    ]
    readonly_fields = ["by_groups"]

    @admin.display(description="is")
    def by_groups(self, person: User) -> str:
        """Beside the memberships below, which people gave here."""
        lines = []
        for account in person.provider_accounts.select_related("tokens"):
            is_by = ", ".join(each.gives for each in mappings(account))
            state = "refused there" if account.refused else f"read at {account.tokens.read_at:%Y-%m-%d %H:%M:%S} UTC"
            lines.append(
                f"{is_by or 'nothing'}, by {', '.join(account.groups) or 'no group'} at {account.provider}, {state}"
            )
        return "; ".join(lines) or "nothing: logs in here"

    def get_inlines(self, request: HttpRequest, obj: User | None) -> list[type[RuledInline]]:
        """Not yet where a person is added: Django asks for the name and the password alone."""
        return [MembershipInline, TenantMembershipInline, BreakGlassInline] if obj else []

    @admin.action(description="Remove the second factors of selected people, who lost them")
    def remove_second_factors(self, request: HttpRequest, people: QuerySet[User]) -> None:
        lost = Authenticator.objects.filter(user__in=people)
        said = f"removed {lost.count()} second factors"
        lost.delete()
        self.message_user(request, said, messages.SUCCESS)

    @admin.action(description="End the sessions of selected people")
    def end_sessions(self, request: HttpRequest, people: QuerySet[User]) -> None:
        sessions = UserSession.objects.filter(user__in=people)
        for session in sessions:
            session.end()
        self.message_user(request, f"ended {len(sessions)} sessions", messages.SUCCESS)
