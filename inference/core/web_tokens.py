"""JSON Web Tokens of issuers (RFC 7519): which key one is signed with, and what it claims once that is verified.

What a token says of its own key (`jku`, `x5u`, `jwk`, `x5c`) is not read: keys come from the issuer's URL alone, and each is for one
algorithm.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt
import msgspec

from inference.contract.errors import PermanentError
from inference.contract.snapshot import Issuer

LEEWAY_S = 30
"""How far the clocks of an issuer and of a gateway may be apart."""
MAX_TOKEN_CHARS = 8 << 10
MAX_KEYS = 100
_MAX_ID_CHARS = 256  # of a key's id
_FAMILIES = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("EdDSA",)}
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_verifier = jwt.PyJWT(
    {"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True, "verify_sub": False, "verify_jti": False}
)

Keys = Mapping[tuple[str, str], jwt.PyJWK]
"""By the key's id, empty where it has none, and its algorithm."""


class BadTokenError(PermanentError, ValueError):
    """The message is for whoever sent the token, and has nothing of it."""


class Signed(msgspec.Struct):
    """The header of a token. Nothing of it is verified."""

    alg: str
    kid: str = ""


class _Claims(msgspec.Struct):
    iss: str


class Verified(NamedTuple):
    """What a token claims. `user` is as the issuer wrote it; empty where it is not wanted. `expires_ms`, Unix time, has the leeway."""

    tenant: str
    tier: str
    user: str
    expires_ms: int


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


_header = msgspec.json.Decoder(Signed).decode
_claims = msgspec.json.Decoder(_Claims).decode
_key_set = msgspec.json.Decoder(_KeySet).decode


def is_token(text: str) -> bool:
    """Whether it has the form of one, which no key has."""
    return text.startswith("ey") and text.count(".") == 2


def read(token: str) -> tuple[Signed, str]:
    """The header of a token, and who it says has issued it, before anything is verified. Raises BadTokenError."""
    header, claims, _ = token.split(".")
    try:
        if len(token) > MAX_TOKEN_CHARS:
            raise ValueError
        signed, issuer = _header(_bytes(header)), _claims(_bytes(claims)).iss
    except (ValueError, binascii.Error, RecursionError):  # msgspec's are ValueErrors too
        raise BadTokenError("It cannot be read") from None
    return signed, issuer


def read_keys(document: bytes, issuer: Issuer) -> Keys:
    """The public keys of a JSON Web Key Set (RFC 7517) that the issuer's tokens may be signed with. Secrets in it are none. Raises
    ValueError.
    """
    given = _key_set(document).keys
    if len(given) > MAX_KEYS:
        raise ValueError(f"it has {len(given)} keys, at most {MAX_KEYS} are taken")
    keys: dict[tuple[str, str], jwt.PyJWK] = {}
    for each in given:
        name = each.get("kid", "")
        if each.get("use", "sig") != "sig" or not isinstance(name, str) or len(name) > _MAX_ID_CHARS:
            continue
        for algorithm in issuer.algorithms:
            if _fits(each, algorithm):
                try:
                    keys[name, algorithm] = jwt.PyJWK(each, algorithm)
                except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                    continue  # one that cannot be used spoils no other
    if not keys:
        raise ValueError(f"none of its {len(given)} keys is for {', '.join(issuer.algorithms)}")
    return keys


def key_of(signed: Signed, keys: Keys) -> jwt.PyJWK | None:
    """The key that it says it is signed with. Where it names none, the only one of its algorithm."""
    if signed.kid:
        return keys.get((signed.kid, signed.alg))
    fitting = [key for (_, algorithm), key in keys.items() if algorithm == signed.alg]
    return fitting[0] if len(fitting) == 1 else None


def verify(token: str, key: jwt.PyJWK, issuer: Issuer) -> Verified:
    """What the token claims, if the issuer has signed it with this key for this gateway, and it holds now. Raises BadTokenError."""
    try:
        claims = _verifier.decode(
            token,
            key,
            algorithms=list(issuer.algorithms),
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=LEEWAY_S,
        )
    except jwt.ExpiredSignatureError:
        raise BadTokenError("It has expired") from None
    except (jwt.ImmatureSignatureError, jwt.InvalidIssuedAtError):
        raise BadTokenError("It does not hold yet: look at the issuer's clock") from None
    except jwt.InvalidAudienceError:
        raise BadTokenError(f"It is not for the audience {issuer.audience!r}") from None
    except jwt.MissingRequiredClaimError as error:
        raise BadTokenError(f"It has no claim {error.claim!r}") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise BadTokenError("Its signature does not hold") from None
    return Verified(
        _text(claims, issuer.tenant_claim) or _missing(issuer.tenant_claim),
        _text(claims, issuer.tier_claim),
        _text(claims, issuer.user_claim),
        (int(claims["exp"]) + LEEWAY_S) * 1000,
    )


def user_hash(key: bytes, issuer: str, user: str) -> str:
    """What a user is known by: without the key nobody can find out who it is, not even by trying names."""
    return hmac.digest(key, f"{issuer}\0{user}".encode("utf-8", "replace"), "sha256")[:16].hex()


def _fits(key: dict[str, Any], algorithm: str) -> bool:
    """Whether a public key is one for the algorithm. What it says of its own algorithm counts."""
    kind = key.get("kty")
    if not isinstance(kind, str) or not algorithm.startswith(_FAMILIES.get(kind, ())):
        return False
    if kind == "EC" and _CURVES.get(str(key.get("crv"))) != algorithm:
        return False
    return bool(key.get("alg", algorithm) == algorithm)


def _text(claims: dict[str, Any], name: str) -> str:
    """Empty where the claim is not wanted or not there. Raises BadTokenError for another value than a text."""
    value = claims.get(name, "") if name else ""
    if not isinstance(value, str):
        raise BadTokenError(f"Its claim {name!r} is no text")
    return value


def _missing(claim: str) -> str:
    raise BadTokenError(f"It has no claim {claim!r}")


def _bytes(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
