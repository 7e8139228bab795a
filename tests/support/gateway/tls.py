"""A certificate in files, and a gateway that serves TLS with it."""

import dataclasses
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509

from inference.contract.snapshot import Snapshot
from tests.support.certificates import A_DAY, certificate
from tests.support.gateway.process import Gateway, gateway_command
from tests.support.start import Start


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that signs itself, in files."""

    certificate: Path
    key: Path
    serial: int

    def trusting(self, **limits: ssl.TLSVersion) -> ssl.SSLContext:
        """A client's context that trusts this certificate alone."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        for name, version in limits.items():
            setattr(context, name, version)
        return context


def issue(folder: Path, name: str = "gateway", valid: tuple[timedelta, timedelta] = A_DAY) -> Issued:
    """Make a certificate for localhost. It replaces the one of that name."""
    made = certificate("localhost", valid=valid)
    files = Issued(
        folder / f"{name}.pem", folder / f"{name}.key", x509.load_pem_x509_certificate(made.chain).serial_number
    )
    files.certificate.write_bytes(made.chain)
    files.key.write_bytes(made.key)
    return files


def tls_gateway(
    start: Start, folder: Path, issued: Issued, snapshot: Snapshot | None, ready: Callable[[int], bool], **settings: str
) -> Gateway:
    """Start a gateway with that certificate; `ready` gets its port, and says whether it serves."""
    command, port, path = gateway_command(
        folder, snapshot, tls_certificate=str(issued.certificate), tls_key=str(issued.key), **settings
    )
    process = start(dataclasses.replace(command, ready=lambda: ready(port)))
    return Gateway(port, path, process, Path(str(process.log)))
