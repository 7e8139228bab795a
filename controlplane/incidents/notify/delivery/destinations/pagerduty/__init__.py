"""PagerDuty: events go out by its Events API v2, and what people do there comes back by its V3 webhooks."""

from controlplane.incidents.notify.delivery.destinations.kind import DestinationKind
from controlplane.incidents.notify.delivery.destinations.pagerduty import form, payload

PAGERDUTY = DestinationKind(
    name="pagerduty",
    label="PagerDuty (Events v2)",
    url_help="empty, or https://events.eu.pagerduty.com in the EU",
    credential_help="the integration's routing key",
    problem=form.problem,
    address=form.address,
    render=payload.render,
)
