"""TLS of a channel."""

import ssl
from typing import NamedTuple


class Tls(NamedTuple):
    """How a server proves who it is. `ca` is a PEM file with the authorities that may have signed its certificate, and empty
    for those of the system; `server_name` is the name in its certificate, and empty for the address's host. `certificate` is a PEM
    file with the client's own and its key, and empty for none.
    """

    ca: str = ""
    server_name: str = ""
    certificate: str = ""


def context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or later with HTTP/2 (ALPN `h2`). Reads files. Raises OSError, which ssl.SSLError is too."""
    made = ssl.create_default_context(cafile=tls.ca or None)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate:
        made.load_cert_chain(tls.certificate, password="")  # none is asked for
    made.set_alpn_protocols(["h2"])
    return made
