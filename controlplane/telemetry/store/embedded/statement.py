"""Parses statements of ClickHouse's HTTP interface, as far as the front needs it."""

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
"""Formats whose concatenated blocks are valid: these can be streamed block by block."""


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT … FORMAT F` with its data: `head` is the statement without the FORMAT clause."""

    head: str
    format: str
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Query:
    """Any other statement. `format` is that of its result."""

    sql: str
    format: str

    @property
    def streams(self) -> bool:
        """Whether the result can be sent block by block: a plain read, in a format whose blocks concatenate."""
        return self.format in CONCATENABLE and _READ.match(self.sql) is not None


def parse(query: str, body: bytes, default_format: str = "TabSeparated") -> Insert | Query:
    """Join the `query` parameter and the body as ClickHouse does: the body is the rest of the statement, or its data."""
    text = query.encode() if query.strip() else b""
    head = text or body[:_HEAD_BYTES]
    match = _INSERT_DATA.match(head)
    if match and not _INSERT_SELECT.match(match.group(1) + b" "):
        data = memoryview(body) if text else memoryview(body)[match.end() :]
        return Insert(match.group(1).decode(), match.group(2).decode(), data)
    try:
        sql = (text + (b"\n" if text and body else b"") + body).decode()
    except UnicodeDecodeError:
        raise StoreInputError("the statement is not UTF-8; send data only after INSERT … FORMAT", code=62) from None
    if not sql.strip():
        raise StoreInputError("there is no statement; send one as `query` or as the body", code=62)
    clause = _TRAILING_FORMAT.search(sql)
    return Query(sql, clause.group(1) if clause else default_format)


def settings_statement(wanted: dict[str, str], present: dict[str, str]) -> str:
    """The SET that changes a handle's settings from `present` to `wanted`; empty if nothing changes.

    Names are checked, because they are part of the statement. Values are quoted; ClickHouse casts them.
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
    """`name`, if it is a plain identifier. Raises StoreInputError otherwise."""
    if not _NAME.match(name):
        raise StoreInputError(f"name {name!r} is not an identifier; use letters, digits and underscores", code=62)
    return name
