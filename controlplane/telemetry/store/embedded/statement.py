"""What a request to ClickHouse's HTTP interface asks for, read off its text: pure, and only as much grammar as the front needs."""

import re
from dataclasses import dataclass

from ..errors import StoreInputError

_COMMENT = rb"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_INSERT_DATA = re.compile(
    rb"^" + _COMMENT + rb"(INSERT\s+INTO\s.*?)\sFORMAT\s+(\w+)[ \t]*(?:\r?\n|;|$)", re.IGNORECASE | re.DOTALL
)
_INSERT_SELECT = re.compile(
    rb"^" + _COMMENT + rb"INSERT\s+INTO\s.*?\s(?:SELECT|VALUES|WITH)\b", re.IGNORECASE | re.DOTALL
)
_TRAILING_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*(?:SETTINGS\b[^;]*)?;?\s*$", re.IGNORECASE)
_READ = re.compile(_COMMENT.decode() + r"[(\s]*(SELECT|WITH)\b", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_HEAD_BYTES = 64 * 1024

CONCATENABLE = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow"})
"""Formats whose blocks, put end to end, are a valid whole: these can be streamed block by block."""


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT … FORMAT F` with its data: `head` is the statement without the FORMAT clause."""

    head: str
    format: str
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Query:
    """Anything else. `format` is what its result is written in; empty where the statement's own clause rules."""

    sql: str
    format: str

    @property
    def streams(self) -> bool:
        """Whether its result can be given block by block: a plain read, in a format whose blocks concatenate."""
        return self.format in CONCATENABLE and _READ.match(self.sql) is not None


def parse(query: str, body: bytes, default_format: str = "TabSeparated") -> Insert | Query:
    """Join the `query` parameter and the body as ClickHouse does: the body follows the parameter, as the rest of it or as its data."""
    text = query.encode() if query.strip() else b""
    head = text or body[:_HEAD_BYTES]
    found = _INSERT_DATA.match(head)
    if found and not _INSERT_SELECT.match(found.group(1) + b" "):
        data = memoryview(body) if text else memoryview(body)[found.end() :]
        return Insert(found.group(1).decode(), found.group(2).decode(), data)
    try:
        sql = (text + (b"\n" if text and body else b"") + body).decode()
    except UnicodeDecodeError:
        raise StoreInputError("the statement is not UTF-8; send data only after INSERT … FORMAT", code=62) from None
    if not sql.strip():
        raise StoreInputError("there is no statement; send one as `query` or as the body", code=62)
    named = _TRAILING_FORMAT.search(sql)
    return Query(sql, named.group(1) if named else default_format)


def settings_statement(wanted: dict[str, str], present: dict[str, str]) -> str:
    """The SET that turns a handle with the settings `present` into one with `wanted`; empty where nothing changes.

    Names are checked because they are written into the statement; values are quoted, and ClickHouse casts them.
    """
    parts = [f"{name} = {quote(value)}" for name, value in wanted.items() if present.get(name) != value]
    parts += [f"{name} = DEFAULT" for name in present if name not in wanted]
    for name in (*wanted, *present):
        if not _NAME.match(name):
            raise StoreInputError(f"setting {name!r} is not a name; use letters, digits and underscores", code=115)
    return f"SET {', '.join(parts)}" if parts else ""


def quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def identifier(name: str) -> str:
    """`name`, where it is a plain identifier; no other is put into a statement."""
    if not _NAME.match(name):
        raise StoreInputError(f"name {name!r} is not an identifier; use letters, digits and underscores", code=62)
    return name
