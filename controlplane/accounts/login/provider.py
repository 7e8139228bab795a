"""What providers say of people: at the log-in, and again while people work. Those of SAML cannot be asked again: their word ends."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from allauth.account.internal.flows.login import get_authentication_records
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from requests import HTTPError, RequestException

from controlplane.accounts.core.standing import ReadTimes, Said, groups_now, groups_of, is_due
from controlplane.accounts.models import GroupMapping, ProviderAccount, ProviderTokens
from controlplane.config.providers import Provider, SamlProvider
from controlplane.core.acting import Actor, acting
from controlplane.core.encryption import SealError

log = structlog.get_logger(__name__)

DISCOVERED_FOR_S = 3600
CLAIM_S = 15
"""How long nobody else asks while somebody does, and after a provider did not answer."""
_STANDING = "_weir_standing"


class RefusedError(Exception):
    """Permanent: the provider does not know the person, or this log-in, any more."""


class NoAnswerError(Exception):
    """Retryable: the provider says nothing that can be used."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of a person. `until` is Unix time, s."""

    access: str
    refresh: str = ""
    until: float = 0.0


def provider_of(provider_id: str) -> Provider | SamlProvider | None:
    return next((each for each in settings.CONFIG.providers if each.id == provider_id), None)


def remember(request: HttpRequest, user: User, sociallogin: Any = None, **_: Any) -> None:
    """After a log-in through a provider: what it said, and the tokens to ask it again."""
    if sociallogin is None:
        return
    account, token = sociallogin.account, sociallogin.token
    provider = provider_of(account.provider)
    if provider is None:
        return
    if isinstance(provider, Provider):
        groups = groups_of(account.extra_data.get(provider.groups_from) or {}, provider.groups_claim)
    else:
        groups = groups_of(account.extra_data, provider.groups_attribute)
    if groups is None:
        log.warning("a provider has more groups of a person than it writes down: no role follows", provider=provider.id)
    said = {"user": user, "groups": sorted(groups or ()), "refused": False}
    kept, _made = ProviderAccount.objects.update_or_create(provider=provider.id, subject=account.uid, defaults=said)
    tokens = ProviderTokens.objects.filter(account=kept).first() or ProviderTokens(account=kept)
    given = Tokens("")
    if token is not None:
        until = token.expires_at.timestamp() if token.expires_at else 0.0
        given = Tokens(token.token, token.token_secret, until)
    tokens.secret = json.dumps(asdict(given))
    tokens.read_at, tokens.claimed_until = timezone.now(), None
    tokens.save()


def standing(user: Any) -> Mapping[tuple[str, str], frozenset[str] | None]:
    """The person's groups by provider and subject, asked for again where that is due. None: refused, or not known any more."""
    known: dict[tuple[str, str], frozenset[str] | None] | None = getattr(user, _STANDING, None)
    if known is None:
        known = {}
        if settings.CONFIG.providers:
            times = ReadTimes(settings.CONFIG.oidc_reread_s, settings.CONFIG.oidc_outage_s)
            for tokens in ProviderTokens.objects.filter(account__user_id=user.pk).select_related("account"):
                known[tokens.account.provider, tokens.account.subject] = _now(tokens, times)
        setattr(user, _STANDING, known)
    return known


def mapped(user: Any) -> list[GroupMapping]:
    """What the person is by the groups at providers, as they are now."""
    return [
        mapping
        for (provider, _subject), groups in standing(user).items()
        if groups
        for mapping in GroupMapping.objects.filter(provider=provider, group__in=groups).select_related("team", "tenant")
    ]


def mappings(account: ProviderAccount) -> QuerySet[GroupMapping]:
    """What follows from what was last said."""
    return GroupMapping.objects.filter(provider=account.provider, group__in=account.groups).select_related(
        "team", "tenant"
    )


def login_is_over(request: HttpRequest) -> bool:
    """Whether this session came through a provider that refuses the person by now, or says nothing for too long."""
    for record in get_authentication_records(request, request.user):
        if record["method"] == "socialaccount":
            return standing(request.user).get((record["provider"], record["uid"])) is None
    return False


def _now(tokens: ProviderTokens, times: ReadTimes) -> frozenset[str] | None:
    account, now = tokens.account, timezone.now()
    provider = provider_of(account.provider)
    if provider is None:
        return None
    if isinstance(provider, Provider) and is_due(_said(tokens), now, times) and _claim(tokens):
        try:
            groups = query(provider, account.subject, Tokens(**json.loads(tokens.secret)), partial(_keep, tokens))
        except RefusedError:
            account.refused = True
            save(account)
        except (NoAnswerError, OAuth2Error, RequestException, SealError, ValueError, KeyError) as error:
            log.warning("a provider does not say who is in which group", provider=provider.id, why=repr(error)[:300])
        else:
            if sorted(groups) != account.groups:
                account.groups = sorted(groups)
                save(account)
            tokens.read_at, tokens.claimed_until = now, None
            tokens.save()
    return groups_now(_said(tokens), now, times)


def save(account: ProviderAccount) -> None:
    """It is the provider that changed it, in whatever request that is seen."""
    with acting(lambda: Actor("", f"provider {account.provider}", "")):
        account.save()


def _keep(tokens: ProviderTokens, given: Tokens) -> None:
    tokens.secret = json.dumps(asdict(given))
    tokens.save(update_fields=["sealed"])


def _said(tokens: ProviderTokens) -> Said:
    return Said(frozenset(tokens.account.groups), tokens.read_at, tokens.account.refused)


def _claim(tokens: ProviderTokens) -> bool:
    """Whether this request is the one that asks: a refresh token that is used twice ends the log-in at many providers."""
    now = timezone.now()
    free = ProviderTokens.objects.filter(
        Q(claimed_until=None) | Q(claimed_until__lt=now), pk=tokens.pk, sealed=tokens.sealed
    )
    return bool(free.update(claimed_until=now + timedelta(seconds=CLAIM_S)))


def adapter_of(provider: Provider) -> Any:
    """allauth's, which knows the provider's addresses."""
    adapter = OpenIDConnectOAuth2Adapter(None, provider.id)
    adapter.did_fetch_access_token = True  # ID tokens come from the provider itself, by TLS
    known = cache.get(provider.issuer)
    if known is None:
        cache.set(provider.issuer, adapter.openid_config, DISCOVERED_FOR_S)
    else:
        adapter._openid_config = known
    return adapter


def query(provider: Provider, subject: str, given: Tokens, keep: Callable[[Tokens], None]) -> frozenset[str]:
    """The groups now. `keep` gets new tokens at once: the old ones are void by then.

    Raises RefusedError; NoAnswerError, OAuth2Error and RequestException where the provider does not say.
    """
    adapter = adapter_of(provider)
    claims: dict[str, Any] | None = None
    if provider.groups_from == "userinfo" and (not given.until or given.until > time.time()):
        claims = _userinfo(adapter, given)
        if claims is None and not given.refresh:
            raise RefusedError
    if claims is None:
        given, id_token = _refreshed(adapter, provider, given)
        keep(given)
        claims = (
            adapter._decode_id_token(adapter.get_provider().app, id_token)
            if provider.groups_from == "id_token"
            else _userinfo(adapter, given)
        )
    if claims is None or claims.get("sub") != subject:
        raise RefusedError
    groups = groups_of(claims, provider.groups_claim)
    if groups is None:
        raise NoAnswerError("it has more groups of the person than it writes down")
    return groups


def _userinfo(adapter: Any, given: Tokens) -> dict[str, Any] | None:
    """None where the token is refused."""
    try:
        claims: dict[str, Any] = adapter._fetch_user_info(given.access)
    except HTTPError as error:
        if error.response is not None and error.response.status_code in (401, 403):
            return None
        raise
    return claims


def _refreshed(adapter: Any, provider: Provider, given: Tokens) -> tuple[Tokens, str]:
    if not given.refresh:
        raise NoAnswerError("it gave no refresh token, and the access token has ended")
    data = {"grant_type": "refresh_token", "refresh_token": given.refresh}
    credentials = (provider.client_id, provider.secret)
    if not adapter.basic_auth:
        data |= {"client_id": credentials[0], "client_secret": credentials[1]}
    with get_adapter().get_requests_session() as session:
        answer = session.post(adapter.access_token_url, data=data, auth=credentials if adapter.basic_auth else None)
    said = answer.json()
    if answer.status_code in (400, 401) and said.get("error") == "invalid_grant":
        raise RefusedError
    answer.raise_for_status()
    until = time.time() + int(said.get("expires_in") or 0) if said.get("expires_in") else 0.0
    return Tokens(said["access_token"], said.get("refresh_token") or given.refresh, until), said.get("id_token") or ""
