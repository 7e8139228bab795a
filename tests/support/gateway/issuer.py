"""An issuer of tokens: its keys, what it signs with them, and the server that has the public ones."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from inference.contract.snapshot import Issuer
from tests.support.http_server import serving

ISSUER, AUDIENCE = "https://login.example.com", "weir"
_MAKE: Any = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


class AnIssuer:
    """`url` is where its keys are, once it is `serving`. `fetched` counts how often they were read; `down` refuses that."""

    def __init__(self, *algorithms: str) -> None:
        self.private = {algorithm: _MAKE[algorithm]() for algorithm in algorithms or ("ES256",)}
        self.url = "http://127.0.0.1:1/keys"
        self.fetched = 0
        self.down = False
        self.names = {algorithm: algorithm for algorithm in self.private}

    def known_as(self, **fields: Any) -> Issuer:
        return Issuer(
            **{"name": "login", "issuer": ISSUER, "audience": AUDIENCE, "jwks_url": self.url, "all_tenants": True}
            | fields
        )

    def keys(self) -> bytes:
        """Its JSON Web Key Set."""
        known = get_default_algorithms()
        return json.dumps(
            {
                "keys": [
                    known[name].to_jwk(key.public_key(), as_dict=True) | {"kid": self.names[name], "use": "sig"}
                    for name, key in self.private.items()
                ]
            }
        ).encode()

    def token(self, algorithm: str = "", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token that holds now, for `alice`, but for `claims`; None leaves one out."""
        algorithm, now = algorithm or next(iter(self.private)), int(time.time())
        given = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "tenant": "alice",
            "sub": "rita",
            "iat": now,
            "exp": now + 600,
        } | claims
        written = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(written, self.private[algorithm], algorithm, {"kid": self.names[algorithm]} | (headers or {}))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["AnIssuer"]:
        async def keys(_: web.Request) -> web.Response:
            self.fetched += 1
            return web.Response(status=503) if self.down else web.Response(body=self.keys())

        async with serving(web.get("/keys", keys)) as url:
            self.url = f"{url}/keys"
            yield self
