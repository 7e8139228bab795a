"""What the form of a PagerDuty destination takes."""

from controlplane.incidents.notify.delivery.destinations.kind import Problem, RequestAddress
from controlplane.incidents.notify.delivery.destinations.pagerduty.payload import EVENTS_URL

ROUTING_KEY_CHARACTERS = 32


def problem(url: str, secret: str) -> Problem | None:
    if len(secret) == ROUTING_KEY_CHARACTERS and secret.isalnum():
        return None
    return Problem(
        "secret",
        f"A routing key has {ROUTING_KEY_CHARACTERS} letters and digits: copy it from the integration's page.",
    )


def address(url: str, secret: str) -> RequestAddress:
    return RequestAddress("url", url or EVENTS_URL)
