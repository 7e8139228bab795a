"""Decides who may send. Without a token only this machine may: the receivers then bind to loopback addresses only."""

import hmac

from inference.contract.address import is_loopback

_SCHEME = "bearer "


def allowed(token: str, authorization: str | None) -> bool:
    """Whether the `Authorization` header carries the token, compared in constant time. Always true where no token is set."""
    if not token:
        return True
    given = authorization or ""
    if given[: len(_SCHEME)].lower() != _SCHEME:
        return False
    return hmac.compare_digest(given[len(_SCHEME) :].strip().encode(), token.encode())


def problem(host: str, token: str, *, checks_clients: bool = False) -> str:
    """Why a receiver must not bind to `host`, with the remedy. Empty where it may.

    `checks_clients` says that only senders with a certificate get a connection.
    """
    if token or checks_clients or is_loopback(host):
        return ""
    return (
        f"WEIR_OTLP_HOST={host} is reachable from other machines and WEIR_OTLP_TOKEN is not set: anybody could write spans. "
        "Set WEIR_OTLP_TOKEN or WEIR_OTLP_CLIENT_CA, or bind to 127.0.0.1"
    )
