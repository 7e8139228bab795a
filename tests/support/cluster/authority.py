"""A certificate authority for one control plane: servers' and users' certificates, and the key of its tokens."""

import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.certificates import PEM, private_text, unsigned


class Authority:
    """Writes PEM files to `folder`: `ca.crt`, and NAME.crt and NAME.key of each certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        made = unsigned(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        (folder / "ca.crt").write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(PEM))

    def issue(self, name: str, user: str, *groups: str) -> tuple[Path, Path]:
        """A certificate for a user of these groups, and for a server on this machine; its file and its key's."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )
        made = unsigned(subject, self._name, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        chain, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        chain.write_bytes(made.public_bytes(PEM))
        private.write_bytes(private_text(key))
        return chain, private

    def token_keys(self) -> tuple[Path, Path]:
        """The private and the public key of service accounts' tokens."""
        key = ec.generate_private_key(ec.SECP256R1())
        private, public = self.folder / "sa.key", self.folder / "sa.pub"
        private.write_bytes(private_text(key))
        public.write_bytes(key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
        return private, public
