"""Holds the names of the product to docs/glossary.md. `python -m tests.test_words [FOLDER]` lists what breaks it."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from deploy.local.process import ROOT

PACKAGES = ("controlplane", "inference", "forecasting", "deploy")
PAGES, TEMPLATES = "controlplane/dashboard", "templates"

PARTS_OF_NAMES = {
    "told": "notified, or what is passed on",
    "telling": "notices",
    "eased": "recovered",
    "doubt": "freshness, or what is uncertain",
    "doubted": "refused, or suspect",
    "promise": "objective, or schema",
    "promises": "objectives, or schemas",
    "promised": "objective, or expected",
    "ask": "query",
    "asks": "queries",
    "asked": "question, query or request",
    "asking": "query",
    "eaten": "used",
    "eats": "uses",
    "unheard": "not_notified",
    "hush": "silence",
    "gone": "missing, or lost",
    "pieces": "parts, or what they are",
    "believed": "trusted, or fresh",
    "budgets": "timeouts, where time limits are meant",
}
"""Words that no identifier, file or folder contains, with what to write instead."""

BOUNDS = {"most", "least", "fewest", "longest", "shortest", "largest", "smallest", "highest", "lowest"}
"""Words that no constant has: bounds are MIN_ and MAX_."""

WHOLE_NAMES = {"one": "what it is", "found": "what was found", "life": "actions", "held": "inhibited"}
"""Names that no variable, argument, attribute, function or module has."""

_TAG = re.compile(r"\{% (?:for (?P<loop>[\w, ]+?) in |(?:with|include) (?P<given>[^%]*))")
_GIVEN = re.compile(r"(\w+)=")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def faults_of(name: str) -> Iterator[str]:
    bare = name.strip("_")
    if bare in WHOLE_NAMES:
        yield f"{name}: say {WHOLE_NAMES[bare]}"
    for word in words(bare):
        if word in PARTS_OF_NAMES:
            yield f"{name}: {word} → {PARTS_OF_NAMES[word]}"
        if word in BOUNDS and name.isupper():
            yield f"{name}: {word} → MIN_ or MAX_"


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Every name that the source defines, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.ExceptHandler(name=str() as name):
                yield node.lineno, name
            case ast.alias(asname=str() as name):
                yield node.lineno, name


def context_keys(source: str) -> Iterator[tuple[int, str]]:
    """The keys of every dict that the source writes out: those of pages are what templates read."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                    yield key.lineno, key.value


def template_variables(source: str) -> Iterator[tuple[int, str]]:
    """Every variable that the template defines, with its line."""
    for number, line in enumerate(source.splitlines(), 1):
        for tag in _TAG.finditer(line):
            for name in re.findall(r"\w+", tag["loop"] or "") + _GIVEN.findall(tag["given"] or ""):
                yield number, name


def faults(folders: tuple[str, ...] = PACKAGES) -> list[str]:
    lines = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if "migrations" in path.parts or "__pycache__" in path.parts or not path.is_file():
                continue
            place = path.relative_to(ROOT)
            lines += [f"{place}: {fault}" for part in place.with_suffix("").parts for fault in faults_of(part)]
            if path.suffix == ".py":
                lines += [
                    f"{place}:{line}: {fault}" for line, name in names_in(path.read_text()) for fault in faults_of(name)
                ]
    return lines


def test_every_name_is_one_of_the_field() -> None:
    assert faults() == []


def test_every_name_of_a_template_is_too() -> None:
    readers = [(PAGES, "*.py", context_keys), (TEMPLATES, "*.html", template_variables)]
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for folder, pattern, read in readers
        for path in sorted((ROOT / folder).rglob(pattern))
        for line, name in read(path.read_text())
        for fault in faults_of(name)
    ]
    assert lines == []


def test_a_banned_name_is_seen_in_a_template_and_in_its_context() -> None:
    template = '{% for one, found in told.items %}{% include "_row.html" with told=one %}{% with asked=1 %}'
    assert [name for _, name in template_variables(template)] == ["one", "found", "told", "asked"]
    assert [name for _, name in context_keys('{"found": 1, "not a name": 2, **{"one": 3}}')] == ["found", "one"]


def test_a_banned_name_is_seen_wherever_wherever_it_is_defined(tmp_path: Path) -> None:
    source = "class AskedOnce:\n    def telling(self, one):\n        self.gone = [found for found in one]\n"
    seen = [name for _, name in names_in(source) for _ in faults_of(name)]
    assert sorted(seen) == ["AskedOnce", "found", "gone", "one", "telling"]


if __name__ == "__main__":
    print("\n".join(faults(tuple(sys.argv[1:]) or PACKAGES)))
