"""Makes links and models of pools whose protocol is `openai`."""

import ssl
from collections.abc import Hashable

from inference.backends.credentials import CredentialError, Credentials
from inference.backends.openai.link import HttpLink, Trust
from inference.backends.openai.model import OpenAIModel
from inference.backends.port import Link
from inference.contract.address import parse_proxy
from inference.contract.snapshot import Endpoint, Pool


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
            trust = _trust(pool, self._credentials)
        except (CredentialError, ssl.SSLError, OSError) as error:
            files = " and ".join(filter(None, (pool.tls.ca, pool.tls.certificate)))
            fault = f"pool {pool.name!r}: {files} of its TLS cannot be used: {error}"
        return OpenAIModel(link, pool, metrics, self._credentials, trust, fault)


def _trust(pool: Pool, credentials: Credentials) -> Trust:
    """Raises CredentialError, ssl.SSLError, OSError."""
    tls, context = pool.tls, None
    if tls.ca or tls.certificate:
        context = ssl.create_default_context(cafile=str(credentials.certificates(tls.ca)) if tls.ca else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    if context is not None and tls.certificate:
        context.load_cert_chain(credentials.certificates(tls.certificate), password="")  # none is asked for
    return Trust(context, tls.server_name, parse_proxy(pool.proxy) if pool.proxy else None)
