"""TLS for clients: the certificate, which may change while the gateway runs, and handshakes, whose number and time are bounded."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from inference.contract.errors import PermanentError

_log = structlog.get_logger()
_ACCEPT_PAUSE_S = 0.1  # after an accept that failed, as a rule because there are too many open files


class TlsError(PermanentError, ValueError):
    """The certificate cannot be used. The message names the files and the reason."""


class Certificate:
    """The server's certificate. `context` is for the next connection; open connections keep the one they began with.

    With `client_ca`, only clients that have a certificate signed by it get a connection.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """Raises TlsError."""
        self._files = (certificate, key, client_ca)
        self._seen = self._stat()
        self.context = self._load()

    def look(self) -> None:
        """Read the files again if they have changed. While they do not fit together, the certificate before stays."""
        seen = self._stat()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.context = self._load()
        except TlsError as error:
            _log.error("certificate.refused", reason=str(error), effect="the one before stays in use")
        else:
            _log.info("certificate.changed", certificate=str(self._files[0]))

    def _stat(self) -> list[tuple[int, int, int]]:
        return [_identity(path) for path in self._files if path is not None]

    def _load(self) -> ssl.SSLContext:
        certificate, key, client_ca = self._files
        assert certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(["http/1.1"])
        try:
            # The password is never wanted: without this, OpenSSL reads it from the terminal.
            context.load_cert_chain(certificate, key, password=_no_password)
            if client_ca is not None:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            files = f"WEIR_TLS_CERTIFICATE={str(certificate)!r} with WEIR_TLS_KEY={str(key)!r}"
            if client_ca is not None:
                files += f" and WEIR_TLS_CLIENT_CA={str(client_ca)!r}"
            raise TlsError(
                f"{files} cannot be used ({reason}): give a PEM chain, the server's own certificate first, and the "
                "PEM key of that certificate, without a password."
            ) from None
        return context


class Handshakes:
    """Accepts connections and passes those on whose handshake has succeeded. `has_room` is asked before each accept."""

    def __init__(
        self,
        certificate: Certificate,
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


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _no_password() -> str:
    raise ValueError("the key has a password")
