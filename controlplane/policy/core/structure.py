"""Checks plain values against the types of `spec.py`, field by field, so that every fault names its field, its value and a remedy."""

import difflib
import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from controlplane.core.documents.problem import dotted, shown

Path = tuple[str | int, ...]
Fault = tuple[Path, str]
"""Where, and a sentence."""


def near(value: object, choices: Sequence[str]) -> str:
    """The remedy for a value that is none of the choices."""
    close = difflib.get_close_matches(str(value), choices, 1)
    if close and len(choices) > 1:
        return f"write {close[0]}"
    return f"write {choices[0]}" if len(choices) == 1 else f"use one of {', '.join(choices)}"


def structure(kind: Any, value: object, path: Path) -> Iterator[Fault]:
    """The faults of a value against a type, the outermost of each part."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return
        kind = next(each for each in arguments if each is not type(None))
        origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated and get_origin(arguments[0]) in (tuple, dict):  # what is inside says more than its bounds
        inside = list(structure(arguments[0], value, path))
        if not inside and not _fits(kind, value):
            inside = [(path, f"{dotted(path)} is {shown(value)}: {_remedy(kind, value)}")]
        yield from inside
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        yield from _fields(kind, value, path)
    elif origin is tuple and isinstance(value, list):
        for number, item in enumerate(value):
            yield from structure(arguments[0], item, (*path, number))
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            if not _fits(arguments[0], key):
                yield (*path, key), f"{dotted(path)} has the name {shown(key)}: write {words(arguments[0])}"
            yield from structure(arguments[1], item, (*path, key))
    elif not _fits(kind, value):
        yield path, f"{dotted(path)} is {shown(value)}: {_remedy(kind, value)}"


def _fields(kind: type[msgspec.Struct], value: dict[str, Any], path: Path) -> Iterator[Fault]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    tag = kind.__struct_config__.tag_field
    for key in value:
        if key not in fields and key != tag:
            yield (*path, key), f"{dotted((*path, key))} is not known: {near(key, list(fields))}"
    for name, field in fields.items():
        if name in value:
            yield from structure(field.type, value[name], (*path, name))
        elif field.required:
            yield path, f"{dotted((*path, name))} is missing: write {words(field.type)}"


def _fits(kind: Any, value: object) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _remedy(kind: Any, value: object) -> str:
    info = inspect.type_info(kind)
    if isinstance(info, inspect.LiteralType):
        return near(value, [str(choice) for choice in info.values])
    return f"write {words(kind)}"


def words(kind: Any) -> str:
    """What a value of this type is, such as `a whole number from 1 to 100`."""
    info = inspect.type_info(kind)
    if isinstance(info, inspect.UnionType):
        info = next(each for each in info.types if not isinstance(each, inspect.NoneType))
    match info:
        case inspect.IntType():
            return f"a whole number{_range(info)}"
        case inspect.FloatType():
            return f"a number{_range(info)}"
        case inspect.StrType(pattern=str(pattern), max_length=most) if pattern.startswith("^[A-Za-z_"):
            marks = "'_', ':' and '.'" if ":" in pattern else "'_' and '.'"
            return f"a name: letters, digits, {marks}, at most {most}, first no digit"
        case inspect.StrType(pattern=str(pattern), max_length=most):
            marks = "'.', '_', '-', ':' and '/'" if "/" in pattern else "'.', '_' and '-'"
            return f"a name: letters, digits, {marks}, at most {most}, first and last a letter or digit"
        case inspect.StrType(max_length=int(most)):
            return f"a text of at most {most} characters"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType(values=values):
            return " or ".join(map(str, values))
        case inspect.VarTupleType(item_type=item):
            return f"a list, each entry {_of(item)}"
        case inspect.DictType(value_type=inspect.StrType()):
            return "a mapping from names to texts"
        case inspect.DictType():
            return "a mapping from names to numbers"
        case inspect.StructType(fields=fields):
            return f"a mapping with {', '.join(field.encode_name for field in fields)}"
    return "a text"


def _of(info: inspect.Type) -> str:
    match info:
        case inspect.IntType():
            return f"a whole number{_range(info)}"
        case inspect.StructType(fields=fields):
            return f"a mapping with {', '.join(field.encode_name for field in fields if field.required)}"
    return "a name"


def _range(info: inspect.IntType | inspect.FloatType) -> str:
    least, above, most, below = info.ge, info.gt, info.le, info.lt
    low = f"from {least:g}" if least is not None else f"above {above:g}" if above is not None else ""
    high = f"to {most:g}" if most is not None else f"below {below:g}" if below is not None else ""
    if low.startswith("above") and high.startswith("to"):
        high = f"and at most {most:g}"
    return f" {low} {high}".rstrip()
