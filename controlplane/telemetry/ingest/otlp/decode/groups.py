"""What the spans of one resource and scope have in common."""

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.telemetry.core.spans import AttrValue
from controlplane.telemetry.store.write.arrow_columns import json_text

MAX_BYTES = 4096
"""Of a resource's attributes as JSON. The store repeats them with every span, so that a large resource would multiply."""
DROPPED = "weir.dropped_attributes"


class Group(NamedTuple):
    """`service` is the resource's `service.name`; `resource_text` its attributes as JSON, as `arrow_columns` stores them."""

    service: str = ""
    scope: str = ""
    resource: dict[str, AttrValue] = {}
    resource_text: str = ""


def group(resource: Mapping[str, AttrValue], scope: str = "") -> Group:
    """Attributes that are too large are left out, the longest first, and counted in the attribute `weir.dropped_attributes`."""
    service = resource.get("service.name")
    kept, text = dict(resource), json_text(resource)
    if len(text) > MAX_BYTES:
        sizes = sorted((len(json_text({key: value})), key) for key, value in resource.items())
        room = MAX_BYTES - len(DROPPED) - 32
        kept = {}
        for size, key in sizes:
            room -= size
            if room < 0:
                break
            kept[key] = resource[key]
        kept[DROPPED] = len(resource) - len(kept)
        text = json_text(kept)
    return Group(service if isinstance(service, str) else "", scope, kept, text if kept else "")
