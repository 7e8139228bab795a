"""What a client wants of the cache: `Cache-Control` of its request (RFC 9111, 5.2.1), and how long its answer may be kept."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from inference.contract.snapshot_parts import CacheRule
from inference.core.openai import errors

TTL_HEADER, TAGS_HEADER, GROUNDS_HEADER = "x-weir-cache-ttl", "x-weir-cache-tags", "x-weir-grounds"
MAX_TAGS, MAX_GROUNDS = 8, 64
_DIRECTIVE = re.compile(r'\s*([!#$%&\'*+.^`|~\w-]+)(?:=(?:"([^"]*)"|([^\s,"]*)))?\s*(?:,|$)')
_TAG = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_GROUND = re.compile(r"[!-~]{1,200}")
_DIGITS = re.compile(r"[0-9]{1,9}")


class CacheControl(NamedTuple):
    """`max_age_s` is how old a stored answer may be: None is as old as it may be kept, and for 0 none will do. `ttl_s` bounds how long the
    answer to this request is kept; None leaves that to the rules. `tags` are what its answer can be purged by, and `grounds` what it
    rests on beside the request, such as a version of an index.
    """

    stores: bool = True
    max_age_s: int | None = None
    only_if_cached: bool = False
    ttl_s: int | None = None
    tags: tuple[str, ...] = ()
    grounds: tuple[str, ...] = ()

    @property
    def is_usual(self) -> bool:
        """Whether an answer may be stored and met as those of any request."""
        return self.stores and self.max_age_s is None and self.ttl_s is None

    def ttl_of(self, rule: CacheRule, operation: str, routed_s: int = 0) -> int:
        """How long its answer is kept: the shortest of what its routing rule (`routed_s`; 0 is nothing), its operation and its tags
        say, else as the model says. A request only shortens that.
        """
        said = self._said(rule.ttls_s, operation) if rule.ttls_s else ()
        ttl_s = min(filter(None, (routed_s, *said)), default=rule.ttl_s)
        return min(ttl_s, self.ttl_s) if self.ttl_s is not None else ttl_s

    def stale_for(self, rule: CacheRule, operation: str) -> int:
        """For how long after that its answer may still be given, while a new one is made."""
        said = self._said(rule.stales_s, operation) if rule.stales_s and self.ttl_s is None else ()
        return min(filter(None, said), default=0)

    def _said(self, seconds: Mapping[str, int], operation: str) -> list[int]:
        return [seconds.get(name, 0) for name in (operation, *(f"tag:{it}" for it in self.tags))]


USUAL = CacheControl()


def read(headers: Mapping[bytes, bytes]) -> CacheControl:
    """Directives that mean nothing for a request that runs a model are ignored, as RFC 9111 wants of unknown ones. Of a `max-age` that
    is no number of seconds nothing is fresh enough. Raises ApiError for a wrong TTL, tag or ground.
    """
    said, given_ttl = headers.get(b"cache-control"), headers.get(TTL_HEADER.encode())
    given_tags, given_grounds = headers.get(TAGS_HEADER.encode()), headers.get(GROUNDS_HEADER.encode())
    if said is None and given_ttl is None and given_tags is None and given_grounds is None:
        return USUAL
    stores, only, ages = True, False, list[int]()
    for name, quoted, plain in _DIRECTIVE.findall((said or b"").decode("latin-1")):
        match name.lower():
            case "no-store":
                stores = False
            case "no-cache":
                ages.append(0)
            case "max-age":
                ages.append(int(age) if _DIGITS.fullmatch(age := quoted or plain) else 0)
            case "only-if-cached":
                only = True
    ttl_s = None
    if given_ttl is not None:
        if not _DIGITS.fullmatch(text := given_ttl.decode("latin-1")):
            raise errors.invalid(f"`{TTL_HEADER}` is a number of seconds, such as 60.", TTL_HEADER)
        ttl_s = int(text)
    tags = () if given_tags is None else _tags(given_tags.decode("latin-1"))
    grounds = () if given_grounds is None else _grounds(given_grounds.decode("latin-1"))
    return CacheControl(stores and ttl_s != 0, min(ages, default=None), only, ttl_s, tags, grounds)


def _tags(text: str) -> tuple[str, ...]:
    tags = tuple(tag for part in text.split(",") if (tag := part.strip()))
    if len(tags) > MAX_TAGS or not all(map(_TAG.fullmatch, tags)):
        wanted = f"`{TAGS_HEADER}` is at most {MAX_TAGS} names of lower-case letters, digits, `.`, `-` and `_`, with commas between."
        raise errors.invalid(wanted, TAGS_HEADER)
    return tags


def _grounds(text: str) -> tuple[str, ...]:
    grounds = tuple(sorted({ground for part in text.split(";") if (ground := part.strip())}))
    if len(grounds) > MAX_GROUNDS or not all(map(_GROUND.fullmatch, grounds)):
        wanted = (
            f"`{GROUNDS_HEADER}` is at most {MAX_GROUNDS} names with versions, such as `manual@7; doc=12@3`, "
            "in visible ASCII and of at most 200 characters each."
        )
        raise errors.invalid(wanted, GROUNDS_HEADER)
    return grounds
