"""Every field of the policy snapshot is written by the control plane and read by the gateway."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from deploy.local.process import ROOT
from inference.contract.snapshot import Snapshot

SCHEMA = tuple(
    ROOT / "inference/contract" / f"{name}.py"
    for name in ("snapshot", "snapshot_parts", "snapshot_checks", "rules", "failure_rules", "tensor_mapping")
)
AUTHORS = tuple(ROOT / "controlplane/fleet" / name for name in ("core/snapshot.py", "snapshot_values.py", "publish.py"))


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from structs_in(part)


def walk(struct: type[msgspec.Struct], name: str) -> Iterator[tuple[type[msgspec.Struct], str]]:
    """The struct and those inside it, each with the name of the field that holds it."""
    yield struct, name
    for field, hint in get_type_hints(struct).items():
        for inner in structs_in(hint):
            yield from walk(inner, field)


STRUCTS = list(walk(Snapshot, "snapshot"))
FIELDS = {f"{struct.__name__}.{field}" for struct, _ in STRUCTS for field in struct.__struct_fields__}

ALSO = {"Degradation": "step", "Ejection": "rule", "Retries": "rule"}
"""What values of a struct are called too."""


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def read_in(path: Path) -> set[str]:
    """`Struct.field` for each attribute that is read of a value named as the struct, such as `pool.max_queue`."""
    loads = {
        (last_name(node.value), node.attr)
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    return {
        f"{struct.__name__}.{field}"
        for struct, holder in STRUCTS
        for name in (holder, re.findall("[A-Z][a-z]+", struct.__name__)[-1].lower(), ALSO.get(struct.__name__, holder))
        for field in struct.__struct_fields__
        if (name, field) in loads
    }


def written_in(path: Path) -> set[str]:
    """`Struct.field` for each argument of a call that makes a struct, and for all fields of one that is converted."""
    fields = {struct.__name__: struct.__struct_fields__ for struct, _ in STRUCTS}
    structs = {struct.__name__: struct for struct, _ in STRUCTS}
    written = set()
    for node in nodes(path):
        if isinstance(node, ast.Call) and (struct := last_name(node.func)) in fields:
            names = [*fields[struct][: len(node.args)]]
            for keyword in node.keywords:
                names += [keyword.arg] if keyword.arg else fields[struct]
            written |= {f"{struct}.{name}" for name in names}
        if isinstance(node, ast.Call) and last_name(node.func) == "_part":  # all, out of columns of their names
            written |= {f"{last_name(node.args[0])}.{name}" for name in fields.get(last_name(node.args[0]), ())}
        if isinstance(node, ast.Call) and last_name(node.func) == "replace" and last_name(node.args[0]) == "document":
            written |= {f"Snapshot.{keyword.arg}" for keyword in node.keywords}
        if isinstance(node, ast.Call) and last_name(node.func) == "convert" and last_name(node.args[1]) in structs:
            inner = [struct for struct, _ in walk(structs[last_name(node.args[1])], "")]
            written |= {f"{struct.__name__}.{name}" for struct in inner for name in struct.__struct_fields__}
    return written


def test_every_field_has_a_reader() -> None:
    paths = (path for path in (ROOT / "inference").rglob("*.py") if path not in SCHEMA)
    assert FIELDS - set().union(*map(read_in, paths)) == set()


def test_every_field_has_an_author() -> None:
    assert FIELDS - set().union(*map(written_in, AUTHORS)) == set()
