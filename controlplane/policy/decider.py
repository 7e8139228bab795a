"""Which code decided: part of each record, so that one that replays otherwise can be told from a defect."""

import ast
import functools
import hashlib
import platform
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

FIRST = "controlplane.policy.core.decide"
OURS = ("controlplane.", "forecasting.", "inference.")


@functools.cache
def decider() -> str:
    """The digest of all modules that decide, with the defaults of what owners write, and the versions of what they run on."""
    digest = hashlib.sha256()
    for name, source in sorted(modules().items()):
        digest.update(name.encode() + b"\0" + source + b"\0")
    return f"code {digest.hexdigest()[:16]}, CEL {version('cel-expr-python')}, Python {platform.python_version()}"


def modules() -> dict[str, bytes]:
    """The source of `decide` and of all modules that it imports, directly or not, by name."""
    sources: dict[str, bytes] = {}
    left = [FIRST]
    while left:
        name = left.pop()
        if name not in sources and (path := _path(name)) is not None:
            sources[name] = path.read_bytes()
            left += [each for each in _imported(sources[name]) if each.startswith(OURS)]
    return sources


def _path(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # a name inside a module
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def _imported(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
