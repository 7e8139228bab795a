"""TLS for clients: handshakes, whose number and time are bounded."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog

from inference.contract.tls.certificate import ServerCertificate

_log = structlog.get_logger()
_ACCEPT_PAUSE_S = 0.1  # after an accept that failed, as a rule because there are too many open files


class Handshakes:
    """Accepts connections and passes those on whose handshake has succeeded. `has_room` is asked before each accept."""

    def __init__(
        self,
        certificate: ServerCertificate,
        protocol: Callable[[], asyncio.Protocol],
        has_room: Callable[[], bool],
        *,
        handshake_s: float,
        shutdown_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._certificate, self._protocol, self._has_room = certificate, protocol, has_room
        self._handshake_s, self._shutdown_s = handshake_s, shutdown_s
        self._waiting: dict[asyncio.Task[None], socket.socket] = {}  # handshakes under way, the oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def drop_oldest(self) -> bool:
        """End the handshake that has taken longest. Returns False if there is none."""
        for task, client in self._waiting.items():
            del self._waiting[task]
            with suppress(OSError):  # it has left
                client.shutdown(socket.SHUT_RDWR)
            return True
        return False

    def close(self) -> None:
        """End all handshakes."""
        while self.drop_oldest():
            pass

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until it is cancelled, and then stop listening."""
        try:
            while True:
                try:
                    client, _ = await self._loop.sock_accept(listening)
                except OSError as error:
                    _log.warning("edge.accept_failed", reason=error.strerror or str(error), again_in_s=_ACCEPT_PAUSE_S)
                    await asyncio.sleep(_ACCEPT_PAUSE_S)
                    continue
                if not self._has_room():
                    client.close()
                    continue
                task = self._loop.create_task(self._shake_hands(client))
                self._waiting[task] = client
        finally:
            listening.close()

    async def _shake_hands(self, client: socket.socket) -> None:
        with suppress(OSError):  # not TLS, no common version, too slow, or it has left: any scanner causes it
            await self._loop.connect_accepted_socket(
                self._protocol,
                client,
                ssl=self._certificate.context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=self._shutdown_s,
            )
        self._waiting.pop(asyncio.current_task(), None)  # type: ignore[arg-type]
