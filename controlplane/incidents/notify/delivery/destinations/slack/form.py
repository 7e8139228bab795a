"""What the form of a Slack destination takes. Its URL is a secret: whoever has it can write to the channel."""

from controlplane.incidents.notify.delivery.destinations.kind import Problem, RequestAddress


def problem(url: str, secret: str) -> Problem | None:
    if not secret.startswith(("https://", "http://")):
        return Problem("secret", "Give the webhook's whole URL, such as https://hooks.slack.com/services/….")
    if url:
        return Problem("url", "Leave it empty: Slack's URL is a secret, and goes into the field below.")
    return None


def address(url: str, secret: str) -> RequestAddress:
    return RequestAddress("secret", secret, is_secret=True)
