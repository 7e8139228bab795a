"""A real provider of OpenID Connect as a process (npm's `oidc-provider`, which is certified)."""

import json
import urllib.request
from dataclasses import dataclass

from deploy.local.process import ROOT, Command
from tests.support import need
from tests.support.start import Start

HERE, PACKAGES = ROOT / "tests" / "support" / "oidc", ROOT / "build" / "vendor" / "oidc"
CLIENT_SECRET = "a-secret-of-tests"


@dataclass(frozen=True, slots=True)
class OidcProvider:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

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
        if not (PACKAGES / "node_modules").is_dir():
            need.missing("npm's oidc-provider is not there: install node and npm, and run `make setup-dev`")
        node = need.program("node", install="apt-get install -y nodejs npm")
        back = f"{weir}/login/through/npm/back"
        command = (str(node), str(HERE / "provider.mjs"), str(PACKAGES), str(self.port), back)
        start(Command("oidc", command, self._answers))
        return self

    def logout_of(self, name: str) -> str:
        """The token that the provider sends as it logs somebody out."""
        return self._say(f"ended/{name}", b"")

    def knows(self, **groups: list[str]) -> None:
        """These people, each in these groups, and nobody else."""
        self._say("people", json.dumps(groups).encode())

    def has_present(self, name: str) -> None:
        """Who sits at the browser."""
        self._say(f"as/{name}", b"")

    def _say(self, what: str, body: bytes) -> str:
        with urllib.request.urlopen(f"{self.url}/test/{what}", data=body, timeout=10) as answer:
            return str(answer.read().decode())

    def _answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/.well-known/openid-configuration", timeout=2) as answer:
            return bool(answer.status == 200)
