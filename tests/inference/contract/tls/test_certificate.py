"""The certificate of a server, as handshakes in memory see it."""

import contextlib
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from inference.contract.tls.certificate import ServerCertificate, TlsError
from tests.support.gateway.tls import issue


def shown(context: ssl.SSLContext, client: ssl.SSLContext) -> int:
    """The serial number of the certificate that a client gets. Raises ssl.SSLError where one of the two refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        context.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert ends[0].selected_alpn_protocol() in (None, "http/1.1")
    der = ends[0].getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def test_a_certificate_that_changes_is_shown_from_then_on_and_one_that_does_not_fit_is_not(tmp_path: Path) -> None:
    first = issue(tmp_path)
    server = ServerCertificate(first.certificate, first.key, None, "WEIR_TLS")
    assert server.files == (first.certificate, first.key, None)
    kept, context = server.following(), server.context
    server.reload()
    assert server.context is context, "nothing changed"
    assert shown(context, first.trusting()) == shown(kept, first.trusting()) == first.serial
    old = first.trusting()
    new = issue(tmp_path)
    server.reload()
    assert shown(server.context, new.trusting()) == shown(kept, new.trusting()) == new.serial != first.serial
    with pytest.raises(ssl.SSLError):
        shown(kept, old)
    new.key.unlink()
    context = server.context
    server.reload()
    assert server.context is context, "the one before stays"
    assert shown(kept, new.trusting()) == new.serial


def test_only_clients_of_the_authority_that_is_named_get_a_connection(tmp_path: Path) -> None:
    issued, other = issue(tmp_path), issue(tmp_path, "other")
    server = ServerCertificate.named(issued.certificate, issued.key, issued.certificate, "WEIR_TLS")
    assert server is not None
    client = issued.trusting()
    client.load_cert_chain(issued.certificate, issued.key)
    assert shown(server.context, client) == issued.serial
    strange = issued.trusting()
    strange.load_cert_chain(other.certificate, other.key)
    for refused in (issued.trusting(), strange):
        with pytest.raises(ssl.SSLError):
            shown(server.context, refused)


def test_versions_before_1_2_are_refused_and_http_1_1_is_agreed(tmp_path: Path) -> None:
    issued = issue(tmp_path)
    server = ServerCertificate(issued.certificate, issued.key, None, "WEIR_TLS")
    client = issued.trusting(maximum_version=ssl.TLSVersion.TLSv1_2)
    client.set_alpn_protocols(["h2", "http/1.1"])
    assert shown(server.context, client) == issued.serial
    assert server.context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert server.context.options & ssl.OP_NO_RENEGOTIATION and server.context.options & ssl.OP_NO_COMPRESSION


@pytest.mark.parametrize(
    ("begins_days", "ends_days", "begun"),
    [
        (-90, 15, ""),
        (-90, 13.9, "expires on "),
        (-0.7, 0.3, ""),  # one that is renewed each day
        (-0.8, 0.2, "expires on "),
        (-2, -1, "expired on "),
        (1, 90, "is not valid before "),
    ],
)
def test_a_certificate_that_clients_refuse_or_will_soon_is_logged_once(
    tmp_path: Path, begins_days: float, ends_days: float, begun: str
) -> None:
    issued = issue(tmp_path, valid=(timedelta(days=begins_days), timedelta(days=ends_days)))
    with capture_logs() as logs:
        server = ServerCertificate(issued.certificate, issued.key, None, "WEIR_TLS")
        server.reload()
    assert server.fault.startswith(begun) and bool(server.fault) == bool(begun)
    assert [(log["event"], log["reason"]) for log in logs] == (
        [("certificate.not_valid_for_long", server.fault)] if begun else []
    )
    with capture_logs() as logs:
        issue(tmp_path, valid=(timedelta(days=-2), timedelta(days=-1)))
        server.reload()
        issue(tmp_path)
        server.reload()
    assert server.fault == ""
    assert sum(log["event"] == "certificate.not_valid_for_long" for log in logs) == (begun != "expired on ")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    first, two, locked = issue(tmp_path), issue(tmp_path, "two"), tmp_path / "locked.key"
    key = serialization.load_pem_private_key(first.key.read_bytes(), None)
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    locked.write_bytes(key.private_bytes(*kinds))
    none = tmp_path / "none.pem"
    for certificate, key_file, client_ca, reason in (
        (
            first.certificate,
            two.key,
            None,
            r"^WEIR_TLS_CERTIFICATE='.*gateway\.pem' with WEIR_TLS_KEY='.*two\.key' can",
        ),
        (none, two.key, None, "No such file"),
        (first.certificate, locked, None, "has a password"),
        (first.certificate, first.key, none, r"WEIR_TLS_KEY='.*gateway\.key' and WEIR_TLS_CLIENT_CA='.*none\.pem'"),
    ):
        with pytest.raises(TlsError, match=reason):
            ServerCertificate(certificate, key_file, client_ca, "WEIR_TLS")


def test_a_certificate_and_its_key_are_named_together(tmp_path: Path) -> None:
    assert ServerCertificate.named(None, None, None, "WEIR_TLS") is None
    issued = issue(tmp_path)
    for certificate, key, client_ca, named in (
        (issued.certificate, None, None, "^WEIR_TLS_CERTIFICATE='"),
        (None, issued.key, None, "^WEIR_TLS_KEY='"),
        (None, None, issued.certificate, "^WEIR_TLS_CLIENT_CA='"),
    ):
        with pytest.raises(TlsError, match=named):
            ServerCertificate.named(certificate, key, client_ca, "WEIR_TLS")
