"""What a kind of destination is, what its payloads are made from, and the request that they become."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from controlplane.incidents.notify.core.notice import Change, Link, Notice


@dataclass(frozen=True, slots=True)
class Message:
    """A notice for one address. `id` is the same for every attempt; `now_s` is this attempt's Unix time."""

    notice: Notice | Change
    url: str
    secret: str = field(repr=False)
    id: str = ""
    now_s: int = 0


@dataclass(frozen=True, slots=True)
class Post:
    url: str = field(repr=False)  # Slack's is a secret
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


class Problem(NamedTuple):
    """Why a destination cannot be saved, as a sentence, with the field of the form that is wrong."""

    field: Literal["url", "secret"]
    text: str


class RequestAddress(NamedTuple):
    """The URL that requests go to, and the field of the form that has it."""

    field: Literal["url", "secret"]
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


def absolute(links: tuple[Link, ...]) -> list[Link]:
    """Links with a full address, which can be opened anywhere."""
    return [link for link in links if link.href.startswith(("https://", "http://"))]
