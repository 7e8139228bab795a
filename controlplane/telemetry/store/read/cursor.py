"""Keyset cursors: where a page ended, as opaque text that is checked when it comes back."""

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
    """Raises StoreInputError for text that `encode` did not make, or made for another order."""
    try:
        found = Position(*json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4))))
        valid = (
            len(text) < 300
            and type(found.value) is int
            and 0 <= found.value < 2**64
            and len(bytes.fromhex(found.trace_id)) == 16
            and len(bytes.fromhex(found.request_id)) == 8
        )
    except (ValueError, TypeError):
        valid = False
    if not valid or found.order != order:
        raise StoreInputError(
            f"cursor {text[:40]!r} is not one of order {order!r}; leave it out to begin at the first page"
        )
    return found
