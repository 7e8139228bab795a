"""Where the secrets are that model servers want, and the headers that carry them. The policy snapshot has the secrets' names only."""

import re

from inference.contract.lenient import Exact

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # RFC 9110, 5.6.2
_OF_THE_GATEWAY = frozenset(
    ("host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade", "expect")
) | {"accept-encoding", "traceparent", "x-request-id"}
_BY_NAME = "secret:"


class Header(Exact, frozen=True):
    """A header of each call of a pool's servers: with `value`, or with the secret of this name."""

    name: str
    value: str = ""
    secret: str = ""


def check_header(header: Header) -> None:
    """Raises ValueError with the remedy."""
    name = header.name
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header: write one such as api-key")
    if name.lower() in _OF_THE_GATEWAY:
        raise ValueError(f"the gateway itself writes the header {name}: leave it out")
    if bool(header.value) == bool(header.secret):
        raise ValueError(f"the header {name} needs either a value or the name of a secret")
    if not (header.value.isascii() and header.value.isprintable()):
        raise ValueError(f"the value of {name} has characters that no header can carry: correct it")


def value_and_secret(entered: str) -> tuple[str, str]:
    """Of a header as its owner enters it: `secret:NAME` names a secret, and anything else is the value."""
    return ("", entered.removeprefix(_BY_NAME)) if entered.startswith(_BY_NAME) else (entered, "")


def credential_variable(name: str) -> str:
    """The environment variable of a credential: `hosted-api` is in `WEIR_BACKEND_CREDENTIAL_HOSTED_API`."""
    return "WEIR_BACKEND_CREDENTIAL_" + "".join(c if c.isalnum() else "_" for c in name.upper())
