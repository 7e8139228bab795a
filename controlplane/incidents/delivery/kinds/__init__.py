"""One renderer per kind of destination: from a notice to a request. Pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from controlplane.incidents.delivery.kinds import pagerduty, slack, webhook
from controlplane.incidents.delivery.kinds.message import Message, Post

RENDER: Mapping[str, Callable[[Message], Post]] = MappingProxyType(
    {"pagerduty": pagerduty.render, "webhook": webhook.render, "slack": slack.render}
)
