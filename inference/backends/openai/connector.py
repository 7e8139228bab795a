"""Makes links and models of pools whose protocol is `openai`."""

import ssl
from collections.abc import Hashable

from inference.backends.credentials import CredentialError, Credentials
from inference.backends.openai.link import HttpLink, Trust
from inference.backends.openai.model import OpenAIModel
from inference.backends.port import Link
from inference.contract.snapshot import Endpoint, Pool, Tls


class OpenAIConnector:
    """`credentials` has the secrets and certificates that pools name. With `link_local` their names may point at such addresses."""

    def __init__(self, credentials: Credentials, *, link_local: bool = False) -> None:
        self._credentials = credentials
        self._link_local = link_local

    def link_key(self, pool: Pool, endpoint: Endpoint) -> Hashable:
        """The replica's base URL. What TLS needs goes along with each call."""
        return endpoint.url.rstrip("/")

    def connect(self, pool: Pool, endpoint: Endpoint, timeout_s: float) -> HttpLink:
        """A link to the replica, which connects with its first call, within `timeout_s`."""
        return HttpLink(endpoint.url.rstrip("/"), timeout_s, link_local=self._link_local)

    def backend(self, link: Link, pool: Pool, endpoint: Endpoint) -> OpenAIModel:
        """The pool's model over `link`. A secret that is missing makes its replicas go down, with the reason."""
        assert isinstance(link, HttpLink)
        metrics, fault, trust = endpoint.metrics, "", Trust()
        try:
            trust = _trust(pool.tls, self._credentials)
        except (CredentialError, ssl.SSLError, OSError) as error:
            fault = f"pool {pool.name!r}: tls.ca {pool.tls.ca!r} cannot be used: {error}"
        return OpenAIModel(link, pool, metrics, self._credentials, trust, fault)


def _trust(tls: Tls, credentials: Credentials) -> Trust:
    """Raises CredentialError, ssl.SSLError, OSError."""
    context = None
    if tls.ca:
        context = ssl.create_default_context(cafile=str(credentials.certificates(tls.ca)))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    return Trust(context, tls.server_name)
