"""What Weir must know of one kind of destination. Each kind's folder makes one `DestinationKind`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from controlplane.incidents.notify.delivery.destinations.message import Message, Post

Field = Literal["url", "secret"]


class Problem(NamedTuple):
    """Why a destination cannot be saved, as a sentence, with the field of the form that is wrong."""

    field: Field
    text: str


class RequestAddress(NamedTuple):
    """The URL that requests go to, and the field of the form that has it."""

    field: Field
    url: str
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class DestinationKind:
    """`url_help` and `credential_help` explain the two fields of the form, without a full stop.

    `problem` and `address` get the URL and the secret as they were entered. `new_secret` makes the secret of a kind whose secret may be
    left empty.
    """

    name: str  # as the database and the REST API have it; at most 20 characters
    label: str
    url_help: str
    credential_help: str
    problem: Callable[[str, str], Problem | None]
    address: Callable[[str, str], RequestAddress]
    render: Callable[[Message], Post]
    new_secret: Callable[[], str] | None = None
