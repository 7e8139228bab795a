"""A real provider of SAML 2.0 as a process (npm's `samlp`), which says what is wrong where a test wants that, and signs it."""

import json
import re
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from deploy.local.process import ROOT, Command
from tests.support import need
from tests.support.certificates import certificate
from tests.support.start import Start

HERE, PACKAGES = ROOT / "tests" / "support" / "saml", ROOT / "build" / "vendor" / "saml"


@dataclass(frozen=True, slots=True)
class SamlProvider:
    """`folder` gets its certificate and key."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, **more: object) -> dict[str, object]:
        """As WEIR_SAML has it."""
        return {"id": "okta", "name": "Okta", "metadata_url": f"{self.url}/metadata", **more}

    def start(self, start: Start) -> "SamlProvider":
        if not (PACKAGES / "node_modules").is_dir():
            need.missing("npm's samlp is not there: install node and npm, and run `make setup-dev`")
        node = need.program("node", install="apt-get install -y nodejs npm")
        own = certificate("provider", is_rsa=True)
        own.write(self.folder)
        (self.folder / "key.pem").write_bytes(own.key)
        command = (str(node), str(HERE / "provider.mjs"), str(PACKAGES), str(self.port), str(self.folder))
        start(Command("saml", command, lambda: bool(self.metadata())))
        return self

    def metadata(self) -> bytes:
        with urllib.request.urlopen(f"{self.url}/metadata", timeout=10) as answer:
            return bytes(answer.read())

    def knows(self, **groups: list[str]) -> None:
        """These people, each in these groups, and nobody else."""
        self._say("people", groups)

    def has_present(self, name: str) -> None:
        """Who sits at the browser."""
        self._say(f"as/{name}", {})

    def answers_otherwise(self, **wrong: object) -> None:
        """From now on, in this alone: options of `samlp`, `claims` beside the groups, and `format` of the NameID."""
        self._say("wrong", wrong)

    @staticmethod
    def answer_in(page: str) -> str:
        return re.findall(r'name="SAMLResponse" value="([^"]+)"', page)[0]

    def _say(self, what: str, said: object) -> None:
        urllib.request.urlopen(f"{self.url}/test/{what}", data=json.dumps(said).encode(), timeout=10).close()
