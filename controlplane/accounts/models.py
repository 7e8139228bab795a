"""API tokens, of which only the digest is stored; what people are in teams; saved views; links that show one view to whoever has them."""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, Signer
from django.db import OperationalError, models
from django.utils import timezone

from controlplane.accounts.core.rule import ROLES
from controlplane.accounts.core.scopes import READ, SCOPES, Scope, unknown
from controlplane.core.issued import Issued
from controlplane.core.sealed import Sealed
from inference.contract.snapshot import key_digest

TOKEN_PREFIX = "weir_api_"  # noqa: S105  (not a secret)
USE_RECORDED_EVERY = timedelta(minutes=1)
"""`last_used_at` is no finer than this: a client that polls must not cost a write per request."""
LASTS = timedelta(days=90)
"""A token ends after it, unless its maker says otherwise."""


def usual_end() -> datetime:
    return timezone.now() + LASTS


def only_reading() -> list[str]:
    return [READ]


class ApiTokenManager(models.Manager["ApiToken"]):
    def issue(self, user: User, name: str, scopes: Collection[Scope] = (READ,)) -> tuple["ApiToken", str]:
        """A new token for `user`, which ends after LASTS, and its text, which is not stored."""
        token = ApiToken(user=user, name=name, scopes=list(scopes))
        text = token.renew()
        token.full_clean()
        token.save()
        return token, text

    def adopt(self, user: User, name: str, text: str, scopes: Collection[Scope]) -> tuple["ApiToken", bool]:
        """The record of the token with this text, created without an end where there is none, and whether it was created."""
        made = {"user": user, "name": name, "prefix": ApiToken.shown(text), "scopes": list(scopes), "expires_at": None}
        return self.get_or_create(sha256=key_digest(text), defaults=made)


class ApiToken(Issued):
    BEGINS_WITH = TOKEN_PREFIX

    name = models.CharField(max_length=100, help_text="What uses it, such as “capacity report”.")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens", help_text="Whose rights it has."
    )
    prefix = models.CharField(max_length=32, editable=False, help_text="Its first characters, to tell tokens apart.")
    sha256 = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    expires_at = models.DateTimeField(
        null=True, blank=True, default=usual_end, help_text="Refused from then on; empty never expires."
    )
    scopes = models.JSONField(default=only_reading, help_text="What it may be used for, as far as its user may.")
    team = models.ForeignKey(
        "fleet.Team",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="api_tokens",
        help_text="It changes what is this team's alone; empty: whatever its user may change.",
    )

    objects = ApiTokenManager()

    class Meta:
        verbose_name = "API token"
        ordering = ["-created_at"]

    def clean(self) -> None:
        if not isinstance(self.scopes, list) or not self.scopes or unknown(self.scopes):
            raise ValidationError({"scopes": f"Give one or more of {', '.join(SCOPES)}"})

    def record_use(self) -> None:
        """Store when it was last used, at most once per USE_RECORDED_EVERY over all processes. A database that takes nothing, such as a
        full one, can still be read.
        """
        now = timezone.now()
        fresh = now - USE_RECORDED_EVERY
        if self.last_used_at and self.last_used_at >= fresh:
            return  # an UPDATE that changes nothing takes its turn among SQLite's writers too
        with suppress(OperationalError):
            ApiToken.objects.filter(pk=self.pk).exclude(last_used_at__gte=fresh).update(last_used_at=now)


class TokenUser(User):
    """A user as one of his tokens lets him act: the rule knows its scopes (`controlplane.accounts.rights`)."""

    token: ApiToken

    class Meta:
        proxy = True
        default_permissions = ()

    @classmethod
    def of(cls, token: ApiToken) -> "TokenUser":
        names = [field.attname for field in cls._meta.concrete_fields]
        user = cls.from_db(token._state.db, names, [getattr(token.user, name) for name in names])
        user.token = token
        return user


class Membership(models.Model):
    """What a person is in a team. Of several roles, each is a row."""

    team = models.ForeignKey("fleet.Team", on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name="person", on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=20, choices=[(name, f"{name}: {what}") for name, what in ROLES.items()])

    class Meta:
        ordering = ["team__name", "user__username", "role"]
        constraints = [models.UniqueConstraint(fields=["team", "user", "role"], name="one_membership_of_a_role")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class TenantMembership(models.Model):
    """A person of a tenant: sees what is the tenant's, and nothing else."""

    tenant = models.ForeignKey("fleet.Tenant", on_delete=models.CASCADE, related_name="people")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name="person", on_delete=models.CASCADE, related_name="tenant_memberships"
    )

    class Meta:
        ordering = ["tenant__name", "user__username"]
        constraints = [models.UniqueConstraint(fields=["tenant", "user"], name="one_membership_of_a_tenant")]

    def __str__(self) -> str:
        return f"{self.user} is of the tenant {self.tenant}"


ADMINISTRATOR, OF_A_TENANT = "administrator", "tenant"


class GroupMapping(models.Model):
    """What the people of a group at a provider are here."""

    provider = models.CharField(max_length=40, help_text="Its `id` in WEIR_OIDC or WEIR_SAML.")
    group = models.CharField(max_length=255, help_text="As the provider names it in its claim.")
    role = models.CharField(
        max_length=20,
        choices=[
            *((name, f"{name}: {what}") for name, what in ROLES.items()),
            (ADMINISTRATOR, f"{ADMINISTRATOR}: everything"),
            (OF_A_TENANT, f"{OF_A_TENANT}: sees what is the tenant's"),
        ],
    )
    team = models.ForeignKey(
        "fleet.Team", null=True, blank=True, on_delete=models.CASCADE, help_text="In which a role of teams is."
    )
    tenant = models.ForeignKey(
        "fleet.Tenant", null=True, blank=True, on_delete=models.CASCADE, help_text="Whose people they are."
    )

    class Meta:
        ordering = ["provider", "group"]
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "group", "team", "tenant", "role"], name="one_mapping_of_a_group"
            )
        ]

    def __str__(self) -> str:
        return f"{self.group} at {self.provider}: {self.gives}"

    @property
    def gives(self) -> str:
        """`owner of serving`, `administrator`."""
        of = self.team or self.tenant
        return f"{self.role} of {of}" if of else self.role

    def clean(self) -> None:
        if (self.team is None) != (self.role in (ADMINISTRATOR, OF_A_TENANT)):
            raise ValidationError(
                {"team": "Name a team, or make the group administrators or a tenant's, who are of no team"}
            )
        if (self.tenant is None) != (self.role != OF_A_TENANT):
            raise ValidationError({"tenant": f"Name the tenant of the role {OF_A_TENANT}, and of no other"})
        if self.provider not in {each.id for each in settings.CONFIG.providers}:
            named = ", ".join(each.id for each in settings.CONFIG.providers) or "none yet"
            raise ValidationError({"provider": f"WEIR_OIDC and WEIR_SAML have no such provider; they have {named}"})


class ProviderAccount(models.Model):
    """A person at a provider, and what it last said. The roles follow from the groups at each request (`controlplane.accounts.rights`)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provider_accounts")
    provider = models.CharField(max_length=40)
    subject = models.CharField(max_length=191)
    groups = models.JSONField(default=list)
    refused = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "subject"], name="one_account_of_a_subject")]

    def __str__(self) -> str:
        return f"{self.user} at {self.provider}"


class ProviderTokens(Sealed):
    """With which the provider is asked again, and when it last answered. `claimed_until`: by a request that asks."""

    account = models.OneToOneField(ProviderAccount, on_delete=models.CASCADE, related_name="tokens")
    read_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"of {self.account}"


class BreakGlass(models.Model):
    """A person who may log in here by a password when the provider is down. Each such log-in is said loudly (`login.break_glass`)."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="break_glass")
    reason = models.CharField(max_length=200, help_text="What it is for, and where its password is kept.")

    class Meta:
        verbose_name = verbose_name_plural = "break-glass account"

    def __str__(self) -> str:
        return f"{self.user} may break the glass"


class SavedView(models.Model):
    """A screen with its range and filters, by the URL that reproduces it."""

    name = models.CharField(max_length=100)
    path = models.CharField(max_length=4000, help_text="Path and query of its URL.")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    team = models.CharField(
        max_length=100, blank=True, help_text="Under whose name everybody sees it; empty: its author alone does."
    )
    pinned = models.BooleanField(default=False, help_text="Shown at the top of every screen.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["team", "name", "pk"]
        constraints = [models.UniqueConstraint(fields=["user", "team", "name"], name="one_view_of_a_name")]

    def __str__(self) -> str:
        return f"{self.team}: {self.name}" if self.team else self.name

    @classmethod
    def seen_by(cls, user: Any) -> models.QuerySet["SavedView"]:
        """The user's own, and those of teams."""
        return cls.objects.filter(models.Q(user=user) | ~models.Q(team=""))


class SharedLink(models.Model):
    """Shows one view to whoever has the link, until it ends or is withdrawn. The link carries a signature and no secret is stored."""

    path = models.CharField(max_length=4_000, editable=False, help_text="The view, with its range and filters.")
    author = models.CharField(max_length=150, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    ends_at = models.DateTimeField(help_text="Nothing is shown from then on.")
    withdrawn = models.BooleanField(default=False, help_text="Show nothing any more.")

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.path[:80]} by {self.author}"

    @property
    def text(self) -> str:
        """What stands in its URL."""
        return _SIGNER.sign(str(self.pk))

    @classmethod
    def read(cls, text: str, now: datetime) -> "SharedLink | None":
        """The link whose text this is, if it still shows something."""
        try:
            number = int(_SIGNER.unsign(text))
        except (BadSignature, ValueError):
            return None
        return cls.objects.filter(pk=number, ends_at__gt=now, withdrawn=False).first()


_SIGNER = Signer(salt="weir.shared-link")
