"""Encodes where a page ended as opaque text, and checks it when it comes back (keyset pagination)."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from controlplane.telemetry.core.query_types import Order

from ..errors import StoreInputError


class Position(NamedTuple):
    """The last row of a page: the value the order sorts by (ns), and the row's identity as hex."""

    order: Order
    value: int
    trace_id: str
    request_id: str


def encode(position: Position) -> str:
    return urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def decode(text: str, order: Order) -> Position:
    """Raises StoreInputError for text that `encode` did not return, or returned for another order."""
    try:
        position = Position(*json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4))))
        valid = (
            len(text) < 300
            and type(position.value) is int
            and 0 <= position.value < 2**64
            and len(bytes.fromhex(position.trace_id)) == 16
            and len(bytes.fromhex(position.request_id)) == 8
        )
    except (ValueError, TypeError):
        valid = False
    if not valid or position.order != order:
        raise StoreInputError(
            f"cursor {text[:40]!r} is not one of order {order!r}; leave it out to begin at the first page"
        )
    return position
