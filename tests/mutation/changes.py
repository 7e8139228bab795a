"""The small changes that a test should notice: one operator, number, condition, statement or answer of a function at a time."""

import ast
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
UNSEEN = frozenset(("frozen", "gc", "strict"))
"""Arguments that no correct program notices: of a class that nothing may change, which mypy holds, and of a `zip` of equal lengths."""
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    line: int
    before: str
    after: str
    source: str
    """The whole file, changed."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.before.split())}  ->  {' '.join(self.after.split())}"


def changes_of(path: str, source: str) -> Iterator[Change]:
    """Every change that could be made to a module."""
    whole = source.encode()
    starts = [0, *itertools.accumulate(map(len, whole.splitlines(keepends=True)))]
    for node in _nodes(ast.parse(source)):
        for old, new in _changed(node):
            assert old.end_lineno is not None and old.end_col_offset is not None
            at, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
            after = f"({ast.unparse(new)})" if isinstance(old, ast.expr) else ast.unparse(new)
            made = (whole[:at] + after.encode() + whole[end:]).decode()
            yield Change(path, old.lineno, whole[at:end].decode(), after, made)


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """What runs: no annotations, decorators, docstrings, texts of errors, and nothing of `UNSEEN`."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(
                child, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom
            ):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.keyword) and child.arg in UNSEEN:
                continue
            if isinstance(child, ast.Expr) and ast.unparse(child).startswith("_log."):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _nodes(child)


def _changed(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """What could be written, and in place of what."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield node, _with(node, ops=[SWAPPED[type(op)]()])
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            yield node, _with(node, op=SWAPPED[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield node, ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name) as called) if name in CALLED:
            yield called, ast.Name(CALLED[name])
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not isinstance(
            test, ast.Compare | ast.UnaryOp
        ):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=ast.expr() as value) if not (
            isinstance(value, ast.Constant) and not isinstance(value.value, str)  # a number is changed as such
        ):
            yield node, ast.Return(ast.Constant(None))
        case ast.Break() | ast.Continue():
            yield node, SWAPPED[type(node)]()
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield node, ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made
