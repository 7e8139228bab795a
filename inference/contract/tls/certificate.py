"""The certificate that a server of Weir shows, out of files that may change while it runs."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self

import structlog

from inference.contract.errors import PermanentError

_log = structlog.get_logger()

MAX_WARNED = timedelta(days=14)
_RENEWED_BY = 4  # whoever renews certificates has done so before a fourth of their time is left


class TlsError(PermanentError, ValueError):
    """The certificate cannot be used. The message names the files and the reason."""


class Validity(NamedTuple):
    """From when to when clients take a certificate."""

    begins: datetime
    ends: datetime

    def fault(self, now: datetime) -> str:
        """Why clients refuse it, or will soon; empty where they do not."""
        if now < self.begins:
            return f"is not valid before {self.begins:%Y-%m-%d %H:%M} UTC"
        if now >= self.ends:
            return f"expired on {self.ends:%Y-%m-%d %H:%M} UTC"
        is_late = self.ends - now < min(MAX_WARNED, (self.ends - self.begins) / _RENEWED_BY)
        return f"expires on {self.ends:%Y-%m-%d %H:%M} UTC" if is_late else ""


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
        self._validity, self._logged = _validity(certificate), ""
        self._log_fault()

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
        """Read the files again if they have changed. While they do not fit together, the certificate before stays. Call it now and then."""
        seen = self._stat()
        if seen == self._seen:
            self._log_fault()
            return
        self._seen = seen
        try:
            self.context = self._load()
        except TlsError as error:
            _log.error("certificate.refused", reason=str(error), effect="the one before stays in use")
        else:
            _log.info("certificate.changed", certificate=str(self._files[0]))
            self._validity = _validity(self._files[0])
        self._log_fault()

    @property
    def fault(self) -> str:
        """Why clients refuse the certificate, or will soon; empty where they do not."""
        return self._validity.fault(datetime.now(UTC)) if self._validity else "has no validity that can be read"

    def following(self) -> ssl.SSLContext:
        """A context for a server that keeps one: each handshake uses what is `context` by then."""
        made = self._load()

        def use_latest(connection: ssl.SSLObject, name: str | None, used: ssl.SSLContext) -> None:
            connection.context = self.context

        made.sni_callback = use_latest
        return made

    def _log_fault(self) -> None:
        """Log it when it begins."""
        if (fault := self.fault) == self._logged:
            return
        self._logged = fault
        if fault:
            remedy = f"replace the files of {self._settings}_CERTIFICATE and {self._settings}_KEY"
            _log.warning("certificate.not_valid_for_long", certificate=str(self._files[0]), reason=fault, remedy=remedy)

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


def _validity(certificate: Path) -> Validity | None:
    """Of the first in the file, the server's own. None where it is not known."""
    from cryptography import x509  # takes 10 MB, which only who serves TLS needs

    try:
        own = x509.load_pem_x509_certificate(certificate.read_bytes())
        return Validity(own.not_valid_before_utc, own.not_valid_after_utc)
    except (OSError, ValueError):
        return None


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _no_password() -> str:
    raise ValueError("the key has a password")
