"""What a payload is made from, and the request that it becomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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


def shortened(text: str, longest: int) -> str:
    """At most `longest` characters, with an ellipsis where some are missing."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def absolute(links: tuple[Link, ...]) -> list[Link]:
    """Links with a full address, which can be opened anywhere."""
    return [link for link in links if link.href.startswith(("https://", "http://"))]
