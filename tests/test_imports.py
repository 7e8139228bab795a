"""The house's import contract (pyproject.toml) holds, and is one that can be broken."""

import subprocess
import sys
import tomllib
from pathlib import Path

from deploy.local.process import ROOT

LINT = (str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache")


def contract(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*LINT, *options), cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_import_contract_holds() -> None:
    done = contract()
    assert done.returncode == 0, done.stdout


def test_a_gateway_that_imports_the_control_plane_breaks_it(tmp_path: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    turned = text.replace('forbidden_modules = ["controlplane", "deploy", "django"]', 'forbidden_modules = ["msgspec"]')
    assert turned != text
    config = tmp_path / "pyproject.toml"
    config.write_text(turned)
    done = contract("--config", str(config))
    assert done.returncode == 1
    assert "inference is not allowed to import msgspec" in done.stdout


def test_every_folder_of_code_stands_in_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert folders == set(settings["root_packages"])
    exhaustive = [contract["containers"] for contract in settings["contracts"] if contract.get("exhaustive")]
    assert ["controlplane"] in exhaustive
