"""Certificates for servers on this machine, made on the spot."""

import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


class Certificate(NamedTuple):
    """PEM texts. The certificate is its own authority."""

    chain: bytes
    key: bytes

    def write(self, folder: Path) -> Path:
        """The chain as a file, for a client to trust."""
        path = folder / "authority.pem"
        path.write_bytes(self.chain)
        return path


Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
Valid = tuple[datetime.timedelta, datetime.timedelta]
A_DAY: Valid = (datetime.timedelta(minutes=-5), datetime.timedelta(days=1))
PEM = serialization.Encoding.PEM


def certificate(*names: str, is_rsa: bool = False, valid: Valid = A_DAY) -> Certificate:
    """A certificate for these host names; from when to when it is `valid`, from now on."""
    key: Key = rsa.generate_private_key(65_537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    made = (
        unsigned(subject, subject, key, valid)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(made.public_bytes(PEM), private_text(key))


def unsigned(subject: x509.Name, issuer: x509.Name, key: Key, valid: Valid = A_DAY) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + valid[0])
        .not_valid_after(now + valid[1])
    )


def private_text(key: Key) -> bytes:
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
