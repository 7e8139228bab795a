"""A real provider of OpenID Connect as a process (npm's `oidc-provider`, which is certified)."""

import urllib.request
from dataclasses import dataclass

from deploy.local.process import Command
from tests.support.start import Start
from tests.support.web.npm_provider import NpmProvider

CLIENT_SECRET = "a-secret-of-tests"


@dataclass(frozen=True, slots=True)
class OidcProvider(NpmProvider):
    def settings(self, **more: object) -> dict[str, object]:
        """As WEIR_OIDC has it."""
        return {
            "id": "npm",
            "name": "npm",
            "issuer": self.url,
            "client_id": "weir",
            "client_secret": CLIENT_SECRET,
            **more,
        }

    def start(self, start: Start, weir: str) -> "OidcProvider":
        """`weir`: the URL from which browsers come and to which they are sent back."""
        command = self.command("oidc", "oidc-provider", f"{weir}/login/through/npm/back")
        start(Command("oidc", command, self._answers))
        return self

    def logout_of(self, name: str) -> str:
        """The token that the provider sends as it logs somebody out."""
        return self.say(f"ended/{name}")

    def _answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/.well-known/openid-configuration", timeout=2) as answer:
            return bool(answer.status == 200)
