"""Whose tokens gateways take beside keys."""

from typing import get_args

from django.db import models

from controlplane.fleet.models.named import Named
from controlplane.fleet.models.traffic import Tenant
from controlplane.fleet.validators import validate_name, validate_trusted_url
from inference.contract.snapshot_parts import Issuer, SigningAlgorithm

ALGORITHMS = get_args(SigningAlgorithm)


def _default_algorithms() -> list[str]:
    return list(Issuer("", "", "", "").algorithms)


class TokenIssuer(Named):
    """Who issues JSON Web Tokens that gateways take."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    enabled = models.BooleanField(default=True, help_text="Tokens of a disabled one are refused within a second.")
    issuer = models.CharField(max_length=500, unique=True, help_text="What its tokens have as “iss”, to the letter.")
    audience = models.CharField(
        max_length=500, help_text="What its tokens have as “aud” where they are for these gateways, such as “weir”."
    )
    jwks_url = models.CharField(
        "URL of its public keys",
        max_length=500,
        validators=[validate_trusted_url],
        help_text="A JSON Web Key Set over https, such as https://login.example.com/keys. The gateways fetch it.",
    )
    algorithms = models.JSONField(default=_default_algorithms, help_text="That its tokens may be signed with.")
    tenant_claim = models.CharField(
        "claim of the tenant",
        max_length=200,
        default="tenant",
        help_text="It names the tenant. A token without it is refused.",
    )
    tier_claim = models.CharField(
        "claim of the tier",
        max_length=200,
        blank=True,
        help_text="It names a tier: the tenant's own, or one that its tokens may name. Empty: always its own.",
    )
    user_claim = models.CharField(
        "claim of the user",
        max_length=200,
        blank=True,
        help_text="Such as “sub”. Traces have a hash of it, with the gateways' WEIR_USER_HASH_KEY. Empty: none.",
    )
    all_tenants = models.BooleanField(
        default=False, help_text="Its tokens may name any tenant, also one that is made later."
    )
    tenants = models.ManyToManyField(
        Tenant, blank=True, related_name="issuers", help_text="Else these alone: what it signs for others is refused."
    )

    class Meta:
        verbose_name = "issuer of tokens"
        verbose_name_plural = "issuers of tokens"
        ordering = ["name"]
