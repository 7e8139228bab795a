"""One renderer per kind of destination: from a notice to a request. Pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from controlplane.incidents.notify.delivery.destinations.message import Message, Post
from controlplane.incidents.notify.delivery.destinations.pagerduty import payload
from controlplane.incidents.notify.delivery.destinations.slack import payload as slack
from controlplane.incidents.notify.delivery.destinations.webhook import payload as webhook

RENDER: Mapping[str, Callable[[Message], Post]] = MappingProxyType(
    {"pagerduty": payload.render, "webhook": webhook.render, "slack": slack.render}
)
