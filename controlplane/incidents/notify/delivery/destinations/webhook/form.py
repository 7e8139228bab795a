"""What the form of a signed webhook takes."""

from controlplane.incidents.notify.delivery.destinations.kind import Problem, RequestAddress
from controlplane.incidents.notify.delivery.destinations.webhook.payload import key


def problem(url: str, secret: str) -> Problem | None:
    if not url:
        return Problem("url", "Say where to send, such as https://example.com/weir.")
    try:
        key(secret)
    except ValueError as error:
        return Problem("secret", f"{str(error)[:1].upper()}{str(error)[1:]}.")
    return None


def address(url: str, secret: str) -> RequestAddress:
    return RequestAddress("url", url)
