"""The chain of the audit: each entry has the hash of the one before it, so that one that was changed, removed or moved shows."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

START = "0" * 64
"""What the first entry follows."""


class Link(NamedTuple):
    """An entry as it is stored. `number` counts from 1 without gaps; `content` is all that the entry says."""

    number: int
    content: Mapping[str, Any]
    previous: str
    hash: str


def hash_of(number: int, content: Mapping[str, Any], previous: str) -> str:
    """Hex SHA-256 over the entry as JSON with sorted keys. Values are text, numbers, booleans, null, lists and objects."""
    text = json.dumps([previous, number, content], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


PRUNED = "pruned"
"""The action of the entry that says which entry was the last of those that were removed on purpose."""

BEGIN = (0, START)
"""Number and hash of what the first entry of all follows."""


def pruned_until(number: int, digest: str) -> dict[str, Any]:
    """What an entry of PRUNED has as `after`."""
    return {"number": number, "hash": digest}


def first_break(links: Iterable[Link], head: tuple[int, str], base: tuple[int, str] = BEGIN) -> str:
    """What is wrong first, in a sentence; empty where the links, in order, are whole from behind `base` to the head.

    A `base` other than BEGIN has to be named by an entry of PRUNED.
    """
    number, previous = base
    said = base == BEGIN
    for link in links:
        if link.number != number + 1:
            return f"entry {number + 1} is missing: entry {link.number} follows entry {number}"
        if link.previous != previous:
            return (
                f"entry {link.number} does not follow entry {number} as it stands: one of them was changed or replaced"
            )
        if link.hash != hash_of(link.number, link.content, link.previous):
            return f"entry {link.number} was changed: what it says does not have its hash"
        number, previous = link.number, link.hash
        said = said or (link.content.get("action") == PRUNED and link.content.get("after") == pruned_until(*base))
    if not said:
        return f"the entries until {base[0]} are gone, and no entry says that they were removed"
    if (number, previous) != head:
        return f"the chain ends with entry {number}, and its head is entry {head[0]}: entries at its end were removed or added"
    return ""
