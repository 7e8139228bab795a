"""Holds the layout of the repository: small files, folders that one can read, helpers of tests in one place."""

import ast
import re
import subprocess
import tomllib
from pathlib import PurePath

from deploy.local.process import ROOT

MAX_LINES = 400
MAX_MODULES = 20
MAX_LOOSE_MODULES = 7
MAX_LIST_OF_A_CONTRACT = 10
MAX_COLUMNS = 160
"""Of templates and documents."""


def files(pattern: str = "*.py") -> list[PurePath]:
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard", pattern),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [PurePath(line) for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def test_no_file_is_too_long() -> None:
    lines = {
        str(path): len((ROOT / path).read_text().splitlines()) for path in files() if "migrations" not in path.parts
    }
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_no_line_of_a_template_is_too_long() -> None:
    templates = [path for path in files("*.html") + files("*.svg") if "templates" in path.parts]
    assert templates
    assert [
        f"{path}:{number}: {len(line)} columns"
        for path in templates
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        if len(line) > MAX_COLUMNS
    ] == []


def test_no_line_of_a_document_is_too_long() -> None:
    """Rows of tables and blocks of code cannot be broken."""
    documents = files("*.md")
    assert documents
    assert [
        f"{path}:{number}: {len(line)} columns"
        for path in documents
        for block in (
            re.sub(r"(?ms)^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), (ROOT / path).read_text()),
        )
        for number, line in enumerate(block.splitlines(), 1)
        if len(line) > MAX_COLUMNS and not line.lstrip().startswith("|")
    ] == []


def test_no_folder_has_too_many_modules() -> None:
    modules: dict[str, int] = {}
    for path in files():
        if path.name != "__init__.py" and "migrations" not in path.parts:
            modules[str(path.parent)] = modules.get(str(path.parent), 0) + 1
    assert {folder: count for folder, count in modules.items() if count > MAX_MODULES} == {}
    assert modules["controlplane"] <= MAX_LOOSE_MODULES


def test_no_contract_lists_many_modules() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for contract in settings["tool"]["importlinter"]["contracts"]:
        sources = contract.get("source_modules", contract.get("allowed_importers", []))
        assert len(sources) <= MAX_LIST_OF_A_CONTRACT, contract["name"]


def test_tests_import_helpers_from_support_alone() -> None:
    faults = []
    for path in files():
        if path.parts[0] != "tests" or path.parts[1] in ("bench",):
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.rpartition(".")[2]
                names = [module, *(alias.name for alias in node.names)]
                if (node.level or node.module.startswith("tests")) and any(
                    name.startswith("test_") or name == "conftest" for name in names
                ):
                    faults.append(f"{path}:{node.lineno}: {node.module}")
    assert faults == []


def test_each_attack_that_the_docs_list_is_refused_by_a_test() -> None:
    """`docs/attacks.md` names files below tests/, and tests in them."""
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "attacks.md").read_text())
    texts = {path: (ROOT / "tests" / path).read_text() for path, _ in named}
    assert len(named) > 90
    assert [f"{path}::{test}" for path, test in named if test and f"def {test}(" not in texts[path]] == []
