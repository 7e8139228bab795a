"""The certificate that a server of Weir shows, out of files that may change while it runs."""

import ssl
from pathlib import Path
from typing import Self

import structlog

from inference.contract.errors import PermanentError

_log = structlog.get_logger()


class TlsError(PermanentError, ValueError):
    """The certificate cannot be used. The message names the files and the reason."""


class ServerCertificate:
    """`context` is for the next connection; open connections keep the one they began with.

    With `client_ca`, only clients that have a certificate signed by it get a connection. `settings` is what the names of the
    three settings begin with, such as `WEIR_TLS`.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None, settings: str) -> None:
        """Raises TlsError."""
        self._files, self._settings = (certificate, key, client_ca), settings
        self._seen = self._stat()
        self.context = self._load()

    @classmethod
    def named(cls, certificate: Path | None, key: Path | None, client_ca: Path | None, settings: str) -> Self | None:
        """Returns None where no setting names a file. Raises TlsError."""
        check_whole(certificate, key, client_ca, settings)
        return cls(certificate, key, client_ca, settings) if certificate and key else None

    @property
    def files(self) -> tuple[Path, Path, Path | None]:
        """Of the certificate, its key and the authority of clients."""
        return self._files

    def reload(self) -> None:
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

    def following(self) -> ssl.SSLContext:
        """A context for a server that keeps one: each handshake uses what is `context` by then."""
        made = self._load()

        def use_latest(connection: ssl.SSLObject, name: str | None, used: ssl.SSLContext) -> None:
            connection.context = self.context

        made.sni_callback = use_latest
        return made

    def _stat(self) -> list[tuple[int, int, int] | None]:
        return [_identity(path) for path in self._files if path is not None]

    def _load(self) -> ssl.SSLContext:
        certificate, key, client_ca = self._files
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
            files = f"{self._settings}_CERTIFICATE={str(certificate)!r} with {self._settings}_KEY={str(key)!r}"
            if client_ca is not None:
                files += f" and {self._settings}_CLIENT_CA={str(client_ca)!r}"
            raise TlsError(
                f"{files} cannot be used ({reason}): give a PEM chain, the server's own certificate first, and the "
                "PEM key of that certificate, without a password."
            ) from None
        return context


def check_whole(certificate: Path | None, key: Path | None, client_ca: Path | None, settings: str) -> None:
    """Raises TlsError where one file is named without those that belong to it."""
    if bool(certificate) == bool(key) and (certificate or not client_ca):
        return
    names = {"CERTIFICATE": certificate, "KEY": key, "CLIENT_CA": client_ca}
    given = ", ".join(f"{settings}_{name}={str(path)!r}" for name, path in names.items() if path)
    raise TlsError(
        f"{given} alone cannot serve TLS: set both {settings}_CERTIFICATE and {settings}_KEY, or none of them for plain text"
    )


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _no_password() -> str:
    raise ValueError("the key has a password")
