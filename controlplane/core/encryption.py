"""Encrypts secrets for the database, each with a digest by which equal secrets are recognised.

Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) encrypts the same text differently each time, so the digest is
what can be unique. It is an HMAC-SHA256 with a key derived from the encryption key: without that key, guesses cannot be tried.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

KEY_BYTES = 32
DIGEST_OF = b"weir: digest of a sealed secret"


class SealError(Exception):
    """Permanent: somebody has to correct the keys. The message says how, and holds no secret."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The first key encrypts; any key decrypts."""

    fernets: MultiFernet = field(repr=False)
    digest_keys: tuple[bytes, ...] = field(repr=False)

    def seal(self, text: str) -> str:
        return self.fernets.encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str:
        """Raises SealError where none of the keys sealed it, or where it was changed since."""
        try:
            return self.fernets.decrypt(sealed).decode()
        except InvalidToken:
            raise SealError(
                "the secret cannot be decrypted with the present encryption keys: restore WEIR_HOME/encryption-keys "
                "(or WEIR_ENCRYPTION_KEYS) from its backup, or enter the secret again in the admin"
            ) from None

    def digests(self, text: str) -> list[str]:
        """Hexadecimal, by each key; the first is the one to keep."""
        return [hmac.new(key, text.encode(), hashlib.sha256).hexdigest() for key in self.digest_keys]


def keys(texts: Sequence[str]) -> Keys:
    """At least one text, each base64 of 32 bytes in either alphabet, as `openssl rand -base64 32` prints it. Raises SealError."""
    raw_keys = [_key(text) for text in texts]
    if not raw_keys:
        raise SealError("there is no encryption key: give base64 of 32 bytes, as `openssl rand -base64 32` prints it")
    return Keys(
        MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in raw_keys]),
        tuple(hmac.new(key, DIGEST_OF, hashlib.sha256).digest() for key in raw_keys),
    )


def _key(text: str) -> bytes:
    plain = text.strip().rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        decoded = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) != KEY_BYTES:
        raise SealError(
            f"an encryption key is not base64 of {KEY_BYTES} bytes: use `openssl rand -base64 {KEY_BYTES}`, several "
            "separated by commas (WEIR_ENCRYPTION_KEYS) or one a line (WEIR_HOME/encryption-keys)"
        )
    return decoded
