import os
import socket
from pathlib import Path

import pytest
from django.db import connection

from controlplane.config.databases import NOTICED, DatabaseUrlError, database

HOME = Path("/srv/weir")


def test_no_url_is_sqlite_in_the_home() -> None:
    found = database("", HOME)
    assert (found["ENGINE"], found["NAME"]) == ("django.db.backends.sqlite3", "/srv/weir/weir.sqlite3")


@pytest.mark.parametrize(("url", "name"), [("sqlite:////var/w.db", "/var/w.db"), ("sqlite:///data/w.db", "data/w.db")])
def test_sqlite_paths_are_read_as_sqlalchemy_reads_them(url: str, name: str) -> None:
    assert database(url, HOME)["NAME"] == name


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_every_part_of_a_postgresql_url_is_used(scheme: str) -> None:
    found = database(f"{scheme}://we%40ir:p%2Fw@db.example:6543/weir?sslmode=require", HOME)
    assert (found["USER"], found["PASSWORD"], found["HOST"], found["PORT"], found["NAME"]) == (
        "we@ir",
        "p/w",
        "db.example",
        "6543",
        "weir",
    )
    assert found["OPTIONS"] == {"connect_timeout": 10, "sslmode": "require", **NOTICED}
    assert database(f"{scheme}://db/weir?keepalives_idle=60", HOME)["OPTIONS"]["keepalives_idle"] == "60"


def test_a_postgresql_whose_host_vanishes_is_noticed() -> None:
    """The kernel asks after it while a query waits, and does not send on for a quarter of an hour."""
    psycopg = pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = database(f"postgresql://weir@127.0.0.1:{server.getsockname()[1]}/weir", HOME)
        address = {"host": found["HOST"], "port": found["PORT"]}
        conninfo = psycopg.conninfo.make_conninfo(**address, **found["OPTIONS"])
        connecting = psycopg.pq.PGconn.connect_start(conninfo.encode())
        with socket.socket(fileno=os.dup(connecting.socket)) as theirs:
            idle_s, probes, each_s = (
                theirs.getsockopt(socket.IPPROTO_TCP, name)
                for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPCNT, socket.TCP_KEEPINTVL)
            )
            assert theirs.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert idle_s + probes * each_s == 25
            assert theirs.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000
        connecting.finish()


def test_a_socket_folder_is_a_host() -> None:
    assert database("postgresql://weir@%2Frun%2Fpostgresql/weir", HOME)["HOST"] == "/run/postgresql"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x/y", "use sqlite"),
        ("postgresql://u:hunter2@host", "names no database"),
        ("postgresql://u:hunter2/more@host/weir", "write / in a password as %2F"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(DatabaseUrlError, match=says) as refused:
        database(url, HOME)
    assert "hunter2" not in str(refused.value)
    assert str(refused.value).startswith("WEIR_DATABASE_URL")


@pytest.mark.django_db
@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_sqlite_runs_with_a_write_ahead_log_and_waits_for_other_writers() -> None:
    """Tests wait longer than users: their machine is busy."""
    assert database("", HOME)["OPTIONS"]["timeout"] == 10
    with connection.cursor() as cursor:
        pragmas = [cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "busy_timeout")]
    assert pragmas == ["wal", connection.settings_dict["OPTIONS"]["timeout"] * 1000]
