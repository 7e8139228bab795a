"""Speaks to a cluster's API server: one request at a time, with a timeout, and with the errors of the port.

TLS is the official client's, and so are credentials, once
`kubeconfig` has read them. Bodies are decoded by msgspec, of which objects take what
they need: decoding whole models takes milliseconds a pod.
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3
from kubernetes import client, config

from controlplane.fleet.clusters.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    RetryableClusterError,
    ThrottledError,
    UnreachableError,
)
from controlplane.fleet.clusters.kubernetes.kubeconfig import Names, load
from controlplane.observability import tracing

T = TypeVar("T")

JSON, APPLY, MERGE = "application/json", "application/apply-patch+yaml", "application/merge-patch+json"
CONNECT_S, CALL_S = 2.0, 5.0
"""How long a connection and a call may take, s."""
MAX_RETRY_S = 30.0
OPENED_FOR_S, FORBIDDEN_FOR_S = 10.0, 60.0
"""Credentials that the server refuses, or that may not do something, are read anew after this, at most so often, s."""
OPEN_AGAIN_S = 1.0
"""Credentials that cannot be read are read again after this, however many threads ask, s."""
_CONNECTIONS = 48  # each watch holds one, and custom resources have some twenty kinds
_WARNING = re.compile(r'^\d+ \S+ "(.*)"$', re.DOTALL)
"""`299 - "text"` (RFC 7234, 5.5), in which quotes are escaped."""
ANONYMOUS = "system:anonymous"
"""Whom the server takes a request for that has no credentials."""
_MAY_NOT = re.compile(r'User ".*" cannot ')
"""In what an authorizer refuses. Admission and quotas refuse with 403 too, and no right helps against them."""


class MissingError(InvalidError):
    """Permanent: there is no such object."""


class DeniedError(InvalidError):
    """Permanent, until a rule of the cluster allows it: an admission policy, a webhook or a quota."""


class UnauthorizedError(ForbiddenError):
    """Permanent, until the credentials are renewed."""


class NoConnectionError(UnreachableError):
    """Retryable: there is no connection, so nothing was sent."""


class ExpiredError(RetryableClusterError):
    """Retryable: the server no longer has the history from that resourceVersion on. List anew."""


class FieldConflictError(ConflictError):
    """A field that is applied belongs to somebody else (server-side apply). `fields` has its path and manager."""

    def __init__(self, message: str, fields: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.fields = fields


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []
    retryAfterSeconds: float | None = None  # noqa: N815


class _Status(msgspec.Struct):
    """https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/"""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class Client(client.ApiClient):
    """`names` says what messages call its credentials and its server. `files` are those that it was made of, `read` how they were then."""

    names = Names("the ServiceAccount of Weir's pod", "the cluster that Weir runs in")
    files: tuple[Path, ...] = ()
    read: tuple[tuple[int, ...], ...] = ()

    @property
    def server(self) -> tuple[str, str | None]:
        """What differs where another server is spoken to."""
        return self.configuration.host, self.configuration.ssl_ca_cert

    def is_outdated(self) -> bool:
        """Whether somebody has replaced one of its files."""
        return states(self.files) != self.read


def states(files: Iterable[Path]) -> tuple[tuple[int, ...], ...]:
    """What differs once a file was replaced or written to. A file that is away has none."""
    seen = []
    for file in files:
        with suppress(OSError):
            status = file.stat()
            seen.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(seen)


def connect(kubeconfig: Path | None) -> Client:
    """A client of the cluster that `kubeconfig` names; without it, of the cluster that this process runs in.

    Raises InvalidError where that cannot be read.
    """
    settings = client.Configuration()
    names, files, read = Client.names, Client.files, Client.read
    if kubeconfig is None:
        try:
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        except (config.ConfigException, OSError) as error:
            raise InvalidError(
                f"The credentials of the cluster cannot be read: {str(error).rstrip('.')}. Name a kubeconfig: Weir does not run "
                "in a cluster itself."
            ) from error
    elif not kubeconfig.is_file():
        raise InvalidError(
            f"There is no file {kubeconfig.name} in WEIR_KUBECONFIGS_DIR: put the cluster's kubeconfig there."
        )
    else:
        before = states([kubeconfig])  # what is replaced while it is read is read again
        names = load(kubeconfig, settings)
        others = tuple(Path(name) for name in (settings.ssl_ca_cert, settings.cert_file, settings.key_file) if name)
        files, read = (kubeconfig, *others), (*before, *states(others))
    settings.retries = False  # a write that is sent twice would meet its own change
    settings.connection_pool_maxsize = _CONNECTIONS
    opened = Client(settings)
    opened.names, opened.files, opened.read = names, files, read
    return opened


class Api:
    """Requests to one API server, each of which may take `call_s`. `open_client` is called with the first, again after it failed, where
    the server refuses its credentials or cannot be reached with them, and once its files were replaced.
    """

    def __init__(
        self, open_client: Callable[[], Client], call_s: float = CALL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_client = open_client
        self._call_s = call_s
        self._clock = clock
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._opened_at = 0.0
        self._refused: ClusterError | None = None
        self._server: tuple[str, str | None] | None = None
        self.moves = 0
        """How often another server was spoken to than before, or one with another history: what was seen before that is not this one's."""

    def request(
        self,
        method: str,
        path: str,
        into: type[T],
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        warnings: list[str] | None = None,
    ) -> T:
        """The answer's body, decoded. `warnings` gets what the server warns of. Raises ClusterError."""
        with self._response(method, path, query or {}, body, content_type, self._call_s) as response:
            if warnings is not None:
                warnings += [
                    _WARNING.sub(r"\1", each).replace('\\"', '"') for each in response.headers.getlist("Warning")
                ]
            try:
                return msgspec.json.decode(response.data, type=into)
            except msgspec.DecodeError as error:
                raise UnreachableError(f"{method} {path}: the answer cannot be read ({error}).") from error

    def find(self, path: str, into: type[T]) -> T | None:
        """An object, or None where there is no such. Raises ClusterError."""
        try:
            return self.request("GET", path, into)
        except MissingError:
            return None

    @contextmanager
    def lines(self, path: str, query: dict[str, str], silent_s: float) -> "Iterator[Lines]":
        """The lines of a watch's answer. No line for `silent_s` raises UnreachableError."""
        with self._response("GET", path, query, None, JSON, silent_s) as response:
            yield Lines(response)

    def moves_on(self) -> None:
        """What the server says from now on is of another history than before."""
        with self._lock:
            self.moves += 1

    def close(self) -> None:
        if self._client is not None:
            self._client.rest_client.close()

    @contextmanager
    def _response(
        self, method: str, path: str, query: dict[str, str], body: Any, content_type: str, read_s: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        opened = self._opened()
        call = f"{method} {path}"
        try:
            with tracing.call(f"cluster {method}", {"url.path": path}), _named(call, opened):
                response = self._sent(opened, method, path, query, body, content_type, read_s)
                try:
                    if response.status >= 300:
                        raise error_of(call, response.status, response.headers, response.data, opened.names)
                    yield response
                finally:
                    response.release_conn() if response.closed else response.close()
        except (ForbiddenError, NoConnectionError) as error:
            may = isinstance(error, (UnauthorizedError, NoConnectionError))
            self._renew(opened, OPENED_FOR_S if may else FORBIDDEN_FOR_S)
            raise

    def _opened(self) -> Client:
        with self._lock:
            if self._client is None or self._client.is_outdated():
                self._client = None
                if self._refused is not None and self._clock() - self._opened_at < OPEN_AGAIN_S:
                    raise self._refused
                self._opened_at = self._clock()
                try:
                    self._client, self._refused = self._open_client(), None
                except ClusterError as error:
                    self._refused = error
                    raise
                self.moves += self._server not in (None, self._client.server)
                self._server = self._client.server
            return self._client

    def _renew(self, failed: Client, kept_s: float) -> None:
        """Read the credentials anew with the next request, not more often than every `kept_s`."""
        with self._lock:
            if self._client is failed and self._clock() - self._opened_at >= kept_s:
                self._client = None

    @staticmethod
    def _sent(
        opened: Client, method: str, path: str, query: dict[str, str], body: Any, content_type: str, read_s: float
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": JSON, "User-Agent": "weir"}
        if body is not None:
            headers["Content-Type"] = content_type
        # Renews a token that is about to end.
        opened.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{opened.configuration.host}{path}"
        url = f"{url}?{urlencode(query)}" if query else url
        for is_last in (method != "GET", True):
            try:
                sent = opened.call_api(method, url, headers, body, _request_timeout=(CONNECT_S, read_s))
                break
            # The server had closed an idle connection: a read does no harm twice.
            except urllib3.exceptions.ProtocolError:
                if is_last:
                    raise
        return sent.response  # type: ignore[no-any-return]


class Lines:
    """Lines of an answer that goes on."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        for part in self._response.stream(amt=None, decode_content=False):
            *lines, rest = (rest + part).split(b"\n")
            yield from filter(None, lines)

    def cut(self) -> None:
        """End the answer from another thread, which only the socket itself allows.

        `ssl.SSLSocket.shutdown` would also take TLS off it, and what has come would be read as it is.
        """
        with suppress(OSError, AttributeError, TypeError):
            socket.socket.shutdown(self._response.connection.sock, socket.SHUT_RDWR)  # type: ignore[union-attr]


@contextmanager
def _named(call: str, opened: Client) -> Iterator[None]:
    """What goes wrong below HTTP, as an error of the port."""
    host, names = opened.configuration.host, opened.names
    try:
        yield
    except ClusterError:
        raise
    except client.ApiException as error:  # TLS
        why = " ".join(str(error.reason).split())
        raise NoConnectionError(f"{call}: no connection to {host} ({why}). {_tls_remedy(why, names)}") from error
    except urllib3.exceptions.ProxyError as error:
        proxy = opened.configuration.proxy
        text = f"{call}: the proxy {proxy} does not answer ({_reason(error)}). Correct {names.cluster}, proxy-url."
        raise NoConnectionError(text) from error
    except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.NameResolutionError) as error:
        text = f"{call}: no connection to {host} ({_reason(error)}). If the address is wrong, correct {names.cluster}, server."
        raise NoConnectionError(text) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise UnreachableError(f"{call}: no answer ({type(error).__name__}).") from error


def _tls_remedy(why: str, names: Names) -> str:
    if "mismatch, certificate is not valid for" in why or "Hostname mismatch" in why:
        return f"Set tls-server-name in {names.cluster} to a name that the server's certificate has."
    if "has expired" in why:
        return "Renew the server's certificate."
    if "CERTIFICATE_VERIFY_FAILED" in why:
        return f"The server's certificate is not of the certificate-authority in {names.cluster}: put the server's CA there."
    if "EOF" in why:
        return f"What listens there ended the connection: see whether the API server behind it runs, and {names.cluster}, server."
    return f"Look at the certificates in {names.cluster} and {names.user}."


def _reason(error: Exception) -> str:
    """The innermost cause, in the words of the system."""
    inner: BaseException = error
    while cause := inner.__cause__ or getattr(inner, "original_error", None):
        inner = cause
    return getattr(inner, "strerror", None) or type(inner).__name__


def error_of(call: str, code: int, headers: Any, data: bytes, names: Names = Client.names) -> ClusterError:
    """The error of an answer with this status."""
    try:
        status = msgspec.json.decode(data, type=_Status)
    except msgspec.DecodeError:  # of a proxy
        status = _Status(message=data[:200].decode(errors="replace"))
    message = f"{call}: {code} {status.reason}: {status.message.strip()}".rstrip(": ")
    retry_after_s = _retry_after_s(headers, status)
    match code:
        case 401:
            return UnauthorizedError(
                f"{message}. The cluster does not know the credentials of {names.user}, or they ended: renew them."
            )
        case 403 if ANONYMOUS in message:
            text = f"{message}. The server got no credentials: give {names.user} a token, tokenFile, client-certificate or exec."
            return UnauthorizedError(text)
        case 403 if not _MAY_NOT.search(message) and (status.reason == "Forbidden" or "denied the request" in message):
            text = f"{message}. A rule of the cluster refuses it (an admission policy, a webhook or a quota): change the rule."
            return DeniedError(text)
        case 403:
            return ForbiddenError(f"{message}. Give Weir's role this verb (deploy/kubernetes/base/rbac.yaml).")
        case 404:
            return MissingError(message)
        case 409:
            fields = tuple((cause.field, cause.message) for cause in _causes(status) if cause.field)
            if any(cause.reason == "FieldManagerConflict" for cause in _causes(status)):
                return FieldConflictError(message, fields)
            return ConflictError(message)
        case 410:
            return ExpiredError(message)
        case 429:
            return ThrottledError(message, retry_after_s)
        case _ if code >= 500:
            return UnreachableError(message, retry_after_s)
    return InvalidError(message)


def _causes(status: _Status) -> list[_Cause]:
    return status.details.causes if status.details else []


def _retry_after_s(headers: Any, status: _Status) -> float:
    """What the header says, or the body; 1 s where neither does."""
    stated = headers.get("Retry-After") or (status.details.retryAfterSeconds if status.details else None)
    try:
        return min(max(float(stated or 1.0), 0.0), MAX_RETRY_S)
    except ValueError:  # a date
        return 1.0
