"""Log-outs that a provider of OpenID Connect sends (Back-Channel Logout 1.0, section 2.6)."""

import time

import jwt
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.usersessions.models import UserSession
from django.db import transaction
from requests import RequestException

from controlplane.accounts.login import provider as providers
from controlplane.accounts.models import ProviderAccount
from controlplane.config.providers import Provider

EVENT = "http://schemas.openid.net/event/backchannel-logout"
MAX_AGE_S = 300
ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
"""With a public key: whoever can check a token cannot make one."""


class BadLogoutError(Exception):
    """Nobody is logged out. The message says why."""


def log_out(provider_id: str, token: str) -> None:
    """End every session of whom the token names, and what groups there gave, until the next log-in. Raises BadLogoutError."""
    provider = providers.provider_of(provider_id)
    if not isinstance(provider, Provider):
        raise BadLogoutError("there is no such provider here")
    try:
        if jwt.get_unverified_header(token).get("alg") not in ALGORITHMS:
            raise BadLogoutError(f"its algorithm is none of {', '.join(ALGORITHMS)}")
        config = providers.adapter_of(provider).openid_config
        claims = jwtkit.verify_and_decode(
            credential=token,
            keys_url=config["jwks_uri"],
            issuer=config["issuer"],
            audience=provider.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )
    except (OAuth2Error, RequestException, jwt.PyJWTError, ValueError, KeyError, TypeError) as error:
        raise BadLogoutError("it cannot be verified") from error
    if EVENT not in (claims.get("events") or {}) or "nonce" in claims:
        raise BadLogoutError("it is no logout token")
    if not claims.get("jti") or abs(time.time() - claims["iat"]) > MAX_AGE_S:
        raise BadLogoutError(f"it has no jti, or is older than {MAX_AGE_S} s")
    if not claims.get("sub"):
        raise BadLogoutError("it names no subject: have the provider send `sub`")
    end_sessions(provider.id, claims["sub"])


def end_sessions(provider_id: str, subject: str) -> None:
    with transaction.atomic():
        for account in ProviderAccount.objects.filter(provider=provider_id, subject=subject):
            account.refused = True
            providers.save(account)
            for session in UserSession.objects.filter(user=account.user_id):
                session.end()
