"""Weir's own webhook, signed as Standard Webhooks 1.0 says."""

from controlplane.incidents.notify.delivery.destinations.kind import DestinationKind
from controlplane.incidents.notify.delivery.destinations.webhook import form, payload

WEBHOOK = DestinationKind(
    name="webhook",
    label="Signed webhook",
    url_help="where to send",
    credential_help="empty makes a secret, which is shown once",
    problem=form.problem,
    address=form.address,
    render=payload.render,
    new_secret=payload.new_secret,
)
