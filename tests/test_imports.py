"""The house's import contract (pyproject.toml) can be broken, and leaves no folder out."""

import subprocess
import sys
import tomllib
from pathlib import Path

from deploy.local.process import ROOT

CONTRACT = """
[tool.importlinter]
root_packages = ["inference"]
include_external_packages = true
"""


def test_a_gateway_that_imports_what_it_may_not_breaks_the_contract(tmp_path: Path) -> None:
    """`make check-imports` says whether the contracts hold; this, that one that does not is noticed."""
    text = (ROOT / "pyproject.toml").read_text()
    [start] = [
        part for part in text.split("[[tool.importlinter.contracts]]") if 'source_modules = ["inference"]' in part
    ]
    turned = start.replace(
        'forbidden_modules = ["controlplane", "deploy", "django"]', 'forbidden_modules = ["msgspec"]'
    )
    assert turned != start
    config = tmp_path / "pyproject.toml"
    config.write_text(f"{CONTRACT}[[tool.importlinter.contracts]]{turned}")
    lint = (str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--config", str(config))
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "inference is not allowed to import msgspec" in done.stdout


def test_every_folder_of_code_stands_in_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert folders == set(settings["root_packages"])
    exhaustive = [contract["containers"] for contract in settings["contracts"] if contract.get("exhaustive")]
    assert ["controlplane"] in exhaustive


def test_a_gateway_imports_no_client_that_its_snapshot_may_not_need() -> None:
    heavy = {"aiohttp", "grpc", "google.protobuf", "numpy", "pandas", "redis", "tritonclient"}
    program = f"import sys, inference.__main__; print(*{heavy} & sys.modules.keys())"
    done = subprocess.run((sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
