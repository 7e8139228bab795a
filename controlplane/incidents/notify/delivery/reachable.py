"""Checks a destination's address when it is saved, by the rules that each request is checked by."""

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from typing import NamedTuple

from django.conf import settings
from yarl import URL

from controlplane.incidents.notify.delivery.core.outbound_address import (
    Address,
    Allowed,
    BlockedError,
    allowed,
    check_addresses,
    check_url,
    literal_address,
)
from controlplane.incidents.notify.delivery.destinations.kind import RequestAddress

RESOLVE_TIMEOUT_S = 3.0


class Checked(NamedTuple):
    """`refused`: why the address must not be saved. `warning`: why pages to it may wait. Both are sentences; both empty: all is well."""

    refused: str = ""
    warning: str = ""


def check(address: RequestAddress) -> Checked:
    """The answer quotes the URL, or only its host where the URL is a secret."""
    allow = allowed(settings.CONFIG.outbound_allow)
    try:
        target = URL(address.url)
        host = target.raw_host or ""
        shown = host if address.is_secret else address.url
        check_url(target.scheme, host, target.raw_user is not None or target.raw_password is not None, allow)
    except ValueError:
        return Checked("This is not a URL: use https://host/path.")
    except BlockedError as error:
        return Checked(_refusal(shown, error))
    if literal_address(host) is not None:
        return Checked()
    return _by_name(host, shown, allow, plain=target.scheme == "http")


def _by_name(host: str, shown: str, allow: Allowed, plain: bool) -> Checked:
    try:
        check_addresses(_resolved(host), host, allow, plain)
    except BlockedError as error:
        return Checked(_refusal(shown, error))
    except (OSError, TooLate) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no answer from DNS"
        return Checked(
            warning=f"{host} does not resolve now ({why}). It is saved; pages to it wait until the name resolves."
        )
    return Checked()


def _resolved(host: str) -> list[Address]:
    """Raises OSError, or TimeoutError after RESOLVE_TIMEOUT_S."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="resolve")
    try:
        entries = pool.submit(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM).result(RESOLVE_TIMEOUT_S)
    finally:
        pool.shutdown(wait=False)
    return [ipaddress.ip_address(text) for text in dict.fromkeys(str(entry[4][0]) for entry in entries)]


def _refusal(shown: str, error: BlockedError) -> str:
    return f"{shown} is not spoken to: {error}."
