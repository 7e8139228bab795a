"""Writes an entry for each refusal, log-in and log-out."""

import time
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from controlplane.accounts.login.adapters import refused
from controlplane.accounts.login.break_glass import broken
from controlplane.audit.models import Entry
from controlplane.core.acting import Actor, actor

AGAIN_S = 60
"""The same refusal is written once in this time by each process, so that a program that tries for ever does not fill the audit."""
MAX_REMEMBERED = 10_000

_recent: dict[tuple[str, str, str], float] = {}


class Refusals(MiddlewareMixin):
    """What somebody who is logged in, or a token, was not allowed to do."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        by = actor()
        if response.status_code == 403 and by.who:
            match, what = request.resolver_match, f"{request.method} {request.path_info}"
            read = match is not None and request.method in ("GET", "HEAD")  # who walks through numbers fills no audit
            if _is_new((by.who, by.via, f"{request.method} /{match.route}" if match and read else what)):
                Entry.write(by, "refused", subject=what)
        return response


def _is_new(refusal: tuple[str, str, str]) -> bool:
    now_s = time.monotonic()
    if now_s - _recent.get(refusal, -AGAIN_S) < AGAIN_S:
        return False
    if len(_recent) >= MAX_REMEMBERED:
        _recent.clear()
    _recent[refusal] = now_s
    return True


def connect_logins() -> None:
    refused.connect(_refused, dispatch_uid="audit a log-in that was refused")
    broken.connect(_broke_the_glass, dispatch_uid="audit broke the glass")
    user_logged_in.connect(_logged_in, dispatch_uid="audit logged in")
    user_logged_out.connect(_logged_out, dispatch_uid="audit logged out")


def _logged_in(sender: Any, user: User, **_: Any) -> None:
    _session(user, "logged in")


def _refused(sender: Any, provider: str, why: str, address: str | None, **_: Any) -> None:
    via = f"provider {provider}"
    if _is_new(("", via, why)):
        Entry.write(Actor("", via, address or ""), "refused", kind="auth.user", subject="log-in", note=why)


def _broke_the_glass(sender: Any, user: User, **_: Any) -> None:
    _session(user, "broke the glass")


def _logged_out(sender: Any, user: User | None, **_: Any) -> None:
    if user is not None:
        _session(user, "logged out")


def _session(user: User, action: str) -> None:
    by = actor()
    Entry.write(Actor(user.get_username(), by.via, by.address), action, kind="auth.user", subject=user.get_username())
