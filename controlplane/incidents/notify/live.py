"""Notifies open pages of the dashboard that incidents have changed. Without Redis, pages refresh by a timer."""

import asyncio

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

log = structlog.get_logger(__name__)
GROUP = "live"
TIMEOUT_S = 1.0


def changed() -> None:
    """After the current transaction."""
    transaction.on_commit(_notify)


def _notify() -> None:
    try:
        async_to_sync(_send)()
    except Exception as error:  # noqa: BLE001  (whatever Redis's client raises)
        log.info("live.not_notified", error=f"{type(error).__name__}: {error}")


async def _send() -> None:
    layer = get_channel_layer()
    if layer is not None:
        async with asyncio.timeout(TIMEOUT_S):
            await layer.group_send(GROUP, {"type": "live.changed"})
