"""A real provider of SAML 2.0 as a process (npm's `samlp`), which says what is wrong where a test wants that, and signs it."""

import re
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import requests
from pytest_django import Settings

from controlplane.config import providers
from deploy.local.process import Command
from tests.support.certificates import certificate
from tests.support.start import Start
from tests.support.web.npm_provider import NpmProvider


@dataclass(frozen=True, slots=True)
class SamlProvider(NpmProvider):
    """`folder` gets its certificate and key."""

    folder: Path

    def settings(self, **more: object) -> dict[str, object]:
        """As WEIR_SAML has it."""
        return {"id": "okta", "name": "Okta", "metadata_url": f"{self.url}/metadata", **more}

    def start(self, start: Start) -> "SamlProvider":
        own = certificate("provider", is_rsa=True)
        own.write(self.folder)
        (self.folder / "key.pem").write_bytes(own.key)
        command = self.command("saml", "samlp", str(self.folder))
        start(Command("saml", command, lambda: bool(self.metadata())))
        return self

    def metadata(self) -> bytes:
        with urllib.request.urlopen(f"{self.url}/metadata", timeout=10) as answer:
            return bytes(answer.read())

    def answers_otherwise(self, **wrong: object) -> None:
        """From now on, in this alone: options of `samlp`, `claims` beside the groups, and `format` of the NameID."""
        self.say("wrong", wrong)

    def log_out_of(self, name: str, **wrong: object) -> str:
        """Where it sends the browser of this person, with a log-out that it has signed."""
        self.has_present(name)
        self.answers_otherwise(logOut="http://testserver/login/saml/okta/log-out", **wrong)
        return requests.get(f"{self.url}/log-out", timeout=10, allow_redirects=False).headers["Location"]

    @staticmethod
    def answer_in(page: str) -> str:
        return re.findall(r'name="SAMLResponse" value="([^"]+)"', page)[0]


def use(settings: Settings, said: dict[str, object]) -> None:
    """As WEIR_SAML of this provider."""
    provider = providers.SamlProvider.model_validate(said)
    settings.CONFIG = settings.CONFIG.model_copy(update={"saml": [provider]})
    app = {"provider_id": "okta", "name": "Okta", "client_id": "okta", "secret": ""}
    settings.SOCIALACCOUNT_PROVIDERS = {"saml": {"APPS": [app]}}
