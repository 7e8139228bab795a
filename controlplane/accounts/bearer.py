"""Finds the API token that a request carries in its Authorization header."""

import hmac

from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from controlplane.accounts.models import ApiToken
from inference.contract.snapshot import key_digest

MAX_HEADER_CHARACTERS = 512
"""API tokens are far shorter. A longer text is not hashed."""


def bearer_text(authorization: str) -> str | None:
    """The token in an Authorization header's value; None where it is of another scheme, empty or too long."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and 0 < len(token) <= MAX_HEADER_CHARACTERS else None


def find_token(text: str) -> ApiToken | None:
    """The valid token whose text this is; None where it is unknown or expired, or its user is deactivated.

    The database looks up a digest, so an attacker who times it learns nothing about a token's text. The digest that
    comes back is compared in constant time all the same.
    """
    digest = key_digest(text)
    token = ApiToken.objects.select_related("user", "team").filter(sha256=digest).first()
    if token is None or not hmac.compare_digest(token.sha256, digest):
        return None
    return None if token.is_expired(timezone.now()) or not token.user.is_active else token


class Bearer(HttpBearer):
    """Tells django-ninja and its document of `Authorization: Bearer …`. The BearerToken middleware has looked the token up."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        api_token: ApiToken | None = getattr(request, "api_token", None)
        return api_token
