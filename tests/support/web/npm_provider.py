"""A provider of log-ins out of npm, as a process: what every protocol's has."""

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from deploy.local.process import ROOT
from tests.support import need


@dataclass(frozen=True, slots=True)
class NpmProvider:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self, protocol: str, package: str, *given: str) -> tuple[str, ...]:
        """Of the program in this protocol's folder, which `given` is for."""
        packages = ROOT / "build" / "vendor" / protocol
        if not (packages / "node_modules").is_dir():
            need.missing(f"npm's {package} is not there: install node and npm, and run `make setup-dev`")
        node: Path = need.program("node", install="apt-get install -y nodejs npm")
        program = ROOT / "tests" / "support" / protocol / "provider.mjs"
        return (str(node), str(program), str(packages), str(self.port), *given)

    def knows(self, **groups: list[str]) -> None:
        """These people, each in these groups, and nobody else."""
        self.say("people", groups)

    def has_present(self, name: str) -> None:
        """Who sits at the browser."""
        self.say(f"as/{name}")

    def say(self, what: str, said: object = None) -> str:
        """To the provider, which tests tell what to do."""
        with urllib.request.urlopen(
            f"{self.url}/test/{what}", data=json.dumps(said or {}).encode(), timeout=10
        ) as answer:
            return str(answer.read().decode())
