"""Refuses images that a model's servers must not fetch."""

import asyncio
import socket
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from inference.contract.image_hosts import allowed, is_public
from inference.contract.snapshot import Model
from inference.core.openai import errors
from inference.core.passing.request import Passed

_LOOK_UP_S = 2.0
_MAX_HOSTS = 8
"""In one request: each is a look-up."""


async def check_media(passed: Passed, model: Model) -> None:
    """Raises ApiError unless each image is in the request itself, or at a host that the model's owner allows and whose every
    address is public. The server looks the name up again: who must not be trusted with that is not to be allowed.
    """
    hosts = remote_hosts(passed)
    if not hosts:
        return
    param = passed.prompt_param
    for host in hosts:
        if not allowed(host, model.image_hosts):
            where = ", ".join(model.image_hosts) or "none"
            raise errors.invalid(
                f"Images at {host[:100]!r} are not fetched for this model (allowed hosts: {where}): send the image as a `data:` URL.",
                param,
                "image_host_not_allowed",
            )
    if len(hosts) > _MAX_HOSTS:
        raise errors.invalid(f"Images at {len(hosts)} hosts, at most {_MAX_HOSTS} are taken.", param)
    for host, addresses in zip(hosts, await asyncio.gather(*map(_addresses, hosts)), strict=True):
        if not addresses or not all(map(is_public, addresses)):
            raise errors.invalid(
                f"Images at {host[:100]!r} are not fetched: the host has no address, or one that is not public.",
                param,
                "image_host_not_allowed",
            )


def remote_hosts(passed: Passed) -> Collection[str]:
    return list(dict.fromkeys((urlsplit(url).hostname or "").lower() for url in passed.remote_media))


async def _addresses(host: str) -> Sequence[str]:
    """None where nobody answers for the name in time."""
    try:
        async with asyncio.timeout(_LOOK_UP_S):
            given = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return ()
    return [str(address[0]) for *_, address in given]
