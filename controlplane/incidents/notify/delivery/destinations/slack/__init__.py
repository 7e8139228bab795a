"""Slack's incoming webhooks, and programs that take the same messages (Mattermost, Rocket.Chat)."""

from controlplane.incidents.notify.delivery.destinations.kind import DestinationKind
from controlplane.incidents.notify.delivery.destinations.slack import form, payload

SLACK = DestinationKind(
    name="slack",
    label="Slack-compatible webhook",
    url_help="empty",
    credential_help="the webhook's whole URL",
    problem=form.problem,
    address=form.address,
    render=payload.render,
)
