"""A token is taken only if its issuer has signed it, with a key of the issuer's own, for this gateway, for now."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from inference.contract.snapshot import Issuer
from inference.core import web_tokens
from inference.core.web_tokens import LEEWAY_S, BadTokenError, Verified
from tests.support.gateway.issuer import AnIssuer

HERE = AnIssuer("RS256", "ES256", "EdDSA")
KNOWN = HERE.known_as(user_claim="sub", tier_claim="tier")


def taken(token: str, issuer: Issuer = KNOWN, keys: bytes = b"") -> Verified:
    signed, _ = web_tokens.read(token)
    key = web_tokens.key_of(signed, web_tokens.read_keys(keys or HERE.keys(), issuer))
    if key is None:
        raise BadTokenError("no key")
    return web_tokens.verify(token, key, issuer)


def written(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def claims_of(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_token_that_holds_says_whose_it_is(algorithm: str) -> None:
    now = int(time.time())
    assert taken(HERE.token(algorithm, tier="batch", exp=now + 60)) == (
        "alice", "batch", "rita", (now + 60 + LEEWAY_S) * 1000,
    )  # fmt: skip


def test_a_token_without_a_signature_is_refused() -> None:
    for algorithm in ("none", "None", "NONE", "nOnE", ""):
        with pytest.raises(BadTokenError):
            taken(written({"alg": algorithm, "kid": "RS256"}, claims_of(HERE.token())))
    header, claims, _ = HERE.token("RS256").split(".")
    with pytest.raises(BadTokenError):
        taken(f"{header}.{claims}.")


def test_a_public_key_is_no_secret_to_sign_with() -> None:
    """Key confusion (CVE-2015-9235): HS256 with the text of the public key, in each form in which one has it."""
    public = HERE.private["RS256"].public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    jwk = json.dumps(json.loads(HERE.keys())["keys"][0]).encode()
    for secret in (pem, pem.strip(), der, jwk, HERE.keys()):
        for algorithm in ("HS256", "HS384", "HS512"):
            signed = written({"alg": algorithm, "kid": "RS256"}, claims_of(HERE.token()))[:-1]
            signature = hmac.digest(secret, signed.encode(), hashlib.new(f"sha{algorithm[2:]}").name)
            token = f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
            with pytest.raises(BadTokenError):
                taken(token)


def test_a_secret_in_a_key_set_is_no_key() -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).decode()
    keys = json.loads(HERE.keys())["keys"] + [{"kty": "oct", "k": secret, "kid": "mine", "alg": "HS256"}]
    token = jwt.encode(claims_of(HERE.token()), b"s" * 32, "HS256", {"kid": "mine"})
    with pytest.raises(BadTokenError):
        taken(token, keys=json.dumps({"keys": keys}).encode())


def test_a_key_is_for_its_own_algorithm_alone() -> None:
    other = AnIssuer("RS256")
    assert taken(other.token(), keys=other.keys())
    key = other.private["RS256"]
    with pytest.raises(BadTokenError):
        taken(jwt.encode(claims_of(other.token()), key, "RS512", {"kid": "RS256"}), keys=other.keys())
    said = json.loads(other.keys())["keys"][0] | {"alg": "PS256"}
    with pytest.raises(ValueError, match="none of its 1 keys"):
        web_tokens.read_keys(json.dumps({"keys": [said]}).encode(), KNOWN)


@pytest.mark.parametrize("kid", ["../../dev/null", "' OR 1=1 --", "http://evil.example/keys", "x" * 5000, "", "EdDSA"])
def test_a_key_id_is_a_name_and_nothing_else(kid: str) -> None:
    """`kid` injection: it chooses among the issuer's keys, and opens, reads and asks nothing."""
    stranger = AnIssuer("ES256")
    with pytest.raises(BadTokenError):
        taken(stranger.token(headers={"kid": kid}))


@pytest.mark.parametrize("kid", [7, None, ["RS256"], {"a": 1}])
def test_a_key_id_that_is_no_text_is_refused(kid: Any) -> None:
    with pytest.raises(BadTokenError):
        taken(written({"alg": "RS256", "kid": kid}, claims_of(HERE.token()), b"x" * 256))


@pytest.mark.parametrize("header", ["jku", "x5u", "jwk", "x5c"])
def test_a_key_that_the_token_brings_itself_is_not_used(header: str) -> None:
    stranger = AnIssuer("RS256")
    own = json.loads(stranger.keys())["keys"][0]
    brought = {"jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/x", "jwk": own, "x5c": [own["n"]]}[header]
    with pytest.raises(BadTokenError):
        taken(stranger.token(headers={header: brought}))
    assert taken(HERE.token("RS256", headers={header: brought})).tenant == "alice", "it is ignored"


def test_an_extension_that_must_be_understood_and_is_not_refuses_the_token() -> None:
    with pytest.raises(BadTokenError):
        taken(HERE.token("ES256", headers={"crit": ["exp"]}))


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW - LEEWAY_S - 10}, "expired"),
        ({"exp": None}, "'exp'"),
        ({"exp": "soon"}, "signature"),
        ({"nbf": NOW + 3600}, "not hold yet"),
        ({"iat": NOW + 3600}, "not hold yet"),
        ({"aud": "other"}, "audience"),
        ({"aud": ["other", "another"]}, "audience"),
        ({"aud": None}, "'aud'"),
        ({"iss": "https://login.example.com/"}, "signature"),
        ({"iss": None}, "cannot be read"),
        ({"tenant": None}, "'tenant'"),
        ({"tenant": ""}, "'tenant'"),
        ({"tenant": ["alice", "bob"]}, "no text"),
        ({"tier": 1}, "no text"),
    ],
)
def test_claims_hold_or_the_token_is_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(BadTokenError, match=why):
        taken(HERE.token(**claims))


def test_clocks_may_be_some_seconds_apart() -> None:
    now = int(time.time())
    assert taken(HERE.token(exp=now - 5)) and taken(HERE.token(nbf=now + 5, iat=now + 5))
    assert taken(HERE.token(aud=["other", "weir"]))


def test_a_token_that_was_changed_is_refused() -> None:
    header, claims, signature = HERE.token("EdDSA").split(".")
    other = written({}, claims_of(HERE.token()) | {"tenant": "bob"}).split(".")[1]
    for token in (f"{header}.{other}.{signature}", f"{header}.{claims}.{signature[:-4]}AAAA"):
        with pytest.raises(BadTokenError, match="signature"):
            taken(token)


@pytest.mark.parametrize(
    "token", ["ey..", "ey.ey.ey", "eyJ.eyJ.x", "ey\u00e9.ey.", f"ey{'a' * 9000}.ey.a", "ey" + "[" * 4000 + ".ey."]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(BadTokenError):
        taken(token)


def test_a_key_that_is_too_short_is_no_key() -> None:
    weak = AnIssuer("RS256")
    weak.private["RS256"] = rsa.generate_private_key(65537, 1024)
    with pytest.raises(BadTokenError):
        taken(weak.token(), keys=weak.keys())


def test_a_token_without_a_key_id_has_the_only_key_of_its_algorithm() -> None:
    assert taken(jwt.encode(claims_of(HERE.token()), HERE.private["EdDSA"], "EdDSA")).tenant == "alice"


def test_a_user_is_known_by_a_hash_that_needs_the_key() -> None:
    hashes = {
        web_tokens.user_hash(*of)
        for of in ((b"k", "i", "rita"), (b"l", "i", "rita"), (b"k", "j", "rita"), (b"k", "i", "rit"))
    }
    assert len(hashes) == 4 and web_tokens.user_hash(b"k", "i", "rita") in hashes
    assert not any("rita" in each for each in hashes)


def test_keys_that_cannot_be_used_spoil_no_other() -> None:
    first, second, third = json.loads(HERE.keys())["keys"]

    def names(*keys: dict[str, Any]) -> list[str]:
        return [name for name, _ in web_tokens.read_keys(json.dumps({"keys": keys}).encode(), KNOWN)]

    odd = [
        first | change for change in ({"use": "enc"}, {"kid": 1}, {"kid": "a" * 257}, {"n": "x"}, {"n": 1}, {"kty": 1})
    ]
    odd += [second | change for change in ({"crv": "P-384"}, {"crv": ["P-256"]}, {"crv": None}, {"x": "AA"})]
    assert names(*odd, third, first | {"kid": "a" * 256}, second | {"use": "sig"}) == ["EdDSA", "a" * 256, "ES256"]
    assert names(*[third] * 100) == ["EdDSA"]
    for keys in ([third] * 101, odd, []):
        with pytest.raises(ValueError, match=r"at most 100|none of its"):
            names(*keys)
    two = json.dumps({"keys": [first, first | {"kid": "b"}]}).encode()
    assert web_tokens.key_of(web_tokens.Signed("RS256"), web_tokens.read_keys(two, KNOWN)) is None


def test_tokens_have_a_form_and_a_length() -> None:
    assert [web_tokens.is_token(text) for text in ("ey.a.b", "ey.a", "ey.a.b.c", "xy.a.b")] == [
        True,
        False,
        False,
        False,
    ]
    token = written({"alg": "RS256"}, {"iss": "i"})
    longest = token + "a" * (8192 - len(token))
    assert web_tokens.read(longest) == (web_tokens.Signed("RS256"), "i")
    with pytest.raises(BadTokenError):
        web_tokens.read(longest + "a")
