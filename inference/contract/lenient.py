"""Decodes JSON of a newer version: fields that this version does not know are left out, and named. And reads what servers in Python
write beyond JSON.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec.inspect import DictType, ListType, StructType, Type, UnionType, VarTupleType, type_info

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises where JSON cannot be read."""
_T = TypeVar("_T")


class Exact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that has no other fields than its own, where it is decoded by itself."""


def decode(raw: bytes | msgspec.Raw, type_: type[_T]) -> tuple[_T, tuple[str, ...]]:
    """The value of `raw`, and the paths of unknown fields, such as `cache.colour`. Raises msgspec.DecodeError.

    `Exact` structs forbid unknown fields, so that a document without any, which is the usual one, costs one decoding.
    """
    with saying_why():
        return _decode(raw, type_)


@contextmanager
def saying_why() -> Iterator[None]:
    """Whatever of UNREADABLE is raised inside is raised as msgspec.DecodeError, whose message says what is wrong."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise msgspec.DecodeError("its lists and objects are nested too deeply") from None


def _decode(raw: bytes | msgspec.Raw, type_: type[_T]) -> tuple[_T, tuple[str, ...]]:
    try:
        return msgspec.json.decode(raw, type=type_), ()
    except msgspec.ValidationError:
        value = msgspec.json.decode(raw)
        unknown: list[str] = []
        known = _known(value, type_info(type_), "", unknown)
        if not unknown:
            raise
        return msgspec.json.decode(msgspec.json.encode(known), type=type_), tuple(unknown)


def _known(value: Any, type_: Type, path: str, unknown: list[str]) -> Any:
    """`value` without the fields that `type_` does not have, whose paths are appended to `unknown`."""
    if isinstance(value, dict):
        if (struct := _of(type_, StructType)) is not None:
            types = {field.encode_name: field.type for field in struct.fields}
            unknown += [f"{path}{name}" for name in value if name not in types]
            return {
                name: _known(part, types[name], f"{path}{name}.", unknown)
                for name, part in value.items()
                if name in types
            }
        if (mapping := _of(type_, DictType)) is not None:
            return {name: _known(part, mapping.value_type, f"{path}{name}.", unknown) for name, part in value.items()}
    elif isinstance(value, list):
        items = _of(type_, VarTupleType) or _of(type_, ListType)
        if items is not None:
            return [_known(part, items.item_type, f"{path}{number}.", unknown) for number, part in enumerate(value)]
    return value


def _of(type_: Type, kind: type[_T]) -> _T | None:
    """`type_` itself, or the alternative of it, that is of this kind."""
    types = type_.types if isinstance(type_, UnionType) else (type_,)
    return next((alternative for alternative in types if isinstance(alternative, kind)), None)


def read_leniently(data: bytes) -> Any:
    """What JSON with NaN, half a surrogate pair or bytes that are no UTF-8 says. Raises ValueError."""
    try:
        return json.loads(data.decode("utf-8-sig", "replace"), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(_: str) -> None: ...


def reading(kind: type[_T]) -> Callable[[bytes], _T]:
    """What reads an answer as `kind`. It raises ValueError."""
    decode = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> _T:
        try:
            return decode(data)
        except UNREADABLE:
            return decode(json.dumps(read_leniently(data), ensure_ascii=False).encode("utf-8", "replace"))

    return read
