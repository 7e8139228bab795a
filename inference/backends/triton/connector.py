"""Makes the links and models of pools whose protocol is `triton`."""

from collections.abc import Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from inference.backends.credentials import CredentialError, Credentials
from inference.backends.port import Link
from inference.contract.snapshot import Endpoint, Pool
from inference.wires.grpc import Channel, Tls

if TYPE_CHECKING:
    from inference.backends.triton.model import TritonModel


def load() -> type["TritonModel"]:
    """Import the model and with it Triton's client, which takes a fifth of a start without it."""
    from inference.backends.triton.model import TritonModel

    return TritonModel


class TritonConnector:
    """`credentials` has the secrets and certificates that pools name."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def link_key(self, pool: Pool, endpoint: Endpoint) -> Hashable:
        return endpoint.grpc, pool.tls

    def connect(self, pool: Pool, endpoint: Endpoint, timeout_s: float) -> Channel:
        """A certificate that is missing makes the replica go down, with the reason."""
        return Channel(endpoint.grpc, timeout_s, self._tls(pool))

    def backend(self, link: Link, pool: Pool, endpoint: Endpoint) -> "TritonModel":
        assert isinstance(link, Channel)
        return load()(link, pool, partial(self._headers, pool))

    def _tls(self, pool: Pool) -> Tls | None:
        if not pool.tls.enabled:
            return None
        return Tls(self._file(pool.tls.ca), pool.tls.server_name, self._file(pool.tls.certificate))

    def _file(self, name: str) -> str:
        try:
            return str(self._credentials.certificates(name)) if name else ""
        except CredentialError:
            return name  # connecting then fails with its name

    def _headers(self, pool: Pool) -> Mapping[str, str]:
        """What every call carries. Raises CredentialError."""
        return {"authorization": f"Bearer {self._credentials.read(pool.credential)}"} if pool.credential else {}
