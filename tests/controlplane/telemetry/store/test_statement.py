"""What the front reads off a statement."""

import pytest

from controlplane.telemetry.store import StoreInputError
from controlplane.telemetry.store.dsn import parse_dsn
from controlplane.telemetry.store.embedded.statement import Insert, Query, parse, settings_statement


@pytest.mark.parametrize(
    ("query", "body", "head", "form", "data"),
    [
        ("", b"INSERT INTO t FORMAT CSV\n1,2\n", "INSERT INTO t", "CSV", b"1,2\n"),
        (
            "",
            b"insert into t (a, b)\n format Native\nFORMAT CSV\n",
            "insert into t (a, b)\n",
            "Native",
            b"FORMAT CSV\n",
        ),
        ("INSERT INTO t FORMAT Arrow", b"ARROW1", "INSERT INTO t", "Arrow", b"ARROW1"),
        ("", b"-- a note\n/* two */ INSERT INTO t FORMAT CSV\n1", "INSERT INTO t", "CSV", b"1"),
        ("", b"INSERT INTO t (`select`) FORMAT CSV\n1", "INSERT INTO t (`select`)", "CSV", b"1"),
        ("", b"INSERT INTO t FORMAT RowBinary\n\xff\x00", "INSERT INTO t", "RowBinary", b"\xff\x00"),
    ],
)
def test_an_insert_is_parted_from_its_data(query: str, body: bytes, head: str, form: str, data: bytes) -> None:
    found = parse(query, body)
    assert isinstance(found, Insert)
    assert (found.head.strip(), found.format, bytes(found.data)) == (head.strip(), form, data)


@pytest.mark.parametrize(
    ("query", "body", "form", "streams"),
    [
        ("", b"SELECT 1", "TabSeparated", True),
        ("SELECT 1", b"", "TabSeparated", True),
        ("SELECT", b"1 FORMAT Native", "Native", True),
        ("", b"SELECT 1 FORMAT Arrow", "Arrow", False),
        ("", b"SELECT 1 FORMAT JSON SETTINGS max_threads = 1;", "JSON", False),
        ("", b"(SELECT 1) UNION ALL (SELECT 2)\nFORMAT CSV", "CSV", True),
        ("", b"WITH 1 AS x SELECT x", "TabSeparated", True),
        ("", b"CREATE TABLE t (a UInt8) ENGINE Memory", "TabSeparated", False),
        ("", b"INSERT INTO t SELECT 1", "TabSeparated", False),
        ("", b"INSERT INTO t VALUES (1)", "TabSeparated", False),
    ],
)
def test_a_query_knows_its_format_and_whether_it_can_stream(query: str, body: bytes, form: str, streams: bool) -> None:
    found = parse(query, body)
    assert isinstance(found, Query)
    assert (found.format, found.streams) == (form, streams)


@pytest.mark.parametrize(
    ("wanted", "present", "statement"),
    [
        ({}, {}, ""),
        ({"a": "1"}, {"a": "1"}, ""),
        ({"a": "2"}, {"a": "1"}, "SET a = '2'"),
        ({}, {"a": "1"}, "SET a = DEFAULT"),
        ({"b": "it's \\"}, {"a": "1"}, "SET b = 'it\\'s \\\\', a = DEFAULT"),
    ],
)
def test_settings_change_by_difference(wanted: dict[str, str], present: dict[str, str], statement: str) -> None:
    assert settings_statement(wanted, present) == statement


@pytest.mark.parametrize("name", ["a b", "a=1, b", "", "1a", "a;"])
def test_a_setting_whose_name_is_none_is_refused(name: str) -> None:
    with pytest.raises(StoreInputError, match="setting"):
        settings_statement({name: "1"}, {})


def test_a_dsn_says_where_the_store_is() -> None:
    dsn = parse_dsn("clickhouse://user:p%40ss@host:9999/db?cluster=main")
    assert (dsn.host, dsn.port, dsn.user, dsn.password, dsn.database, dsn.cluster, dsn.secure) == (
        "host", 9999, "user", "p@ss", "db", "main", False,
    )  # fmt: skip
    assert parse_dsn("clickhouses://host").port == 8443
    assert parse_dsn("clickhouse://host").database == "weir"


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("", "WEIR_STORE_DSN is empty"),
        ("http://u:secret@h/db", "WEIR_STORE_DSN is http://h, which is no store"),
        ("clickhouse:///db", "WEIR_STORE_DSN is clickhouse://, which is no store"),
        ("h/db", "WEIR_STORE_DSN has no scheme"),
    ],
)
def test_an_unusable_dsn_is_refused_with_the_setting_its_value_and_the_remedy(dsn: str, says: str) -> None:
    with pytest.raises(StoreInputError) as refused:
        parse_dsn(dsn)
    assert str(refused.value) == f"{says}: set it to clickhouse://user:password@host:port/database"  # and no password


def test_a_database_that_is_no_name_is_refused_without_repeating_the_password() -> None:
    with pytest.raises(StoreInputError, match="not an identifier") as refused:
        parse_dsn("clickhouse://u:secret@h/a-b")
    assert "secret" not in str(refused.value)
