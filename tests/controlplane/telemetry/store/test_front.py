"""The embedded store answers as a ClickHouse server does, to those who know the password, and stays up whatever clients do."""

import contextlib
import gzip
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import clickhouse_connect
import lz4.frame
import pyarrow as pa
import pytest
from backports import zstd
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from controlplane.telemetry.config import IngestConfig
from controlplane.telemetry.store import Store, StoreError, StoreUnavailableError
from controlplane.telemetry.store import client as store_client
from controlplane.telemetry.store.dsn import Dsn, parse_dsn
from tests.support.telemetry.embedded_store import dsn_of, store_process
from tests.support.telemetry.samples import HOUR, random_rows


class Raw:
    """Requests as bytes on a connection of their own."""

    def __init__(self, dsn: Dsn) -> None:
        self.dsn = dsn
        token = b64encode(f"{self.dsn.user}:{self.dsn.password}".encode()).decode()
        self.authorization = {"Authorization": f"Basic {token}"}

    def __call__(
        self, body: bytes = b"", headers: dict[str, str] | None = None, **query: str
    ) -> tuple[int, bytes, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.dsn.port, timeout=120)
        sent = self.authorization if headers is None else headers
        connection.request("POST", "/?" + urlencode({"database": self.dsn.database} | query), body, sent)
        answer = connection.getresponse()
        found = answer.status, answer.read(), answer.headers
        connection.close()
        return found


@pytest.fixture
def raw(shared_store: Store) -> Raw:
    """Asks a database that these tests share."""
    return Raw(shared_store.dsn)


@pytest.fixture
def client(dsn: str) -> Client:
    where = parse_dsn(dsn)
    return clickhouse_connect.get_client(
        host=where.host, port=where.port, username=where.user, password=where.password, database=where.database
    )


def test_the_official_client_works_with_its_defaults(client: Client) -> None:
    client.command(
        "CREATE TABLE t (n UInt64, s LowCardinality(String), m Map(String, String)) ENGINE MergeTree ORDER BY n"
    )
    client.insert("t", [[1, "a", {"k": "v"}], [2, "b", {}]], column_names=["n", "s", "m"])
    client.insert_arrow("t", pa.table({"n": pa.array([3], pa.uint64()), "s": ["c"]}))
    assert client.query("SELECT n, s, m FROM t ORDER BY n").result_rows == [
        (1, "a", {"k": "v"}),
        (2, "b", {}),
        (3, "c", {}),
    ]
    assert client.query_arrow("SELECT n FROM t ORDER BY n")["n"].to_pylist() == [1, 2, 3]
    assert client.query("SELECT s FROM t WHERE n = {n:UInt64}", parameters={"n": 2}).result_rows == [("b",)]
    with client.query_rows_stream("SELECT number FROM numbers(1000000)") as rows:
        assert sum(number for (number,) in rows) == 499999500000
    assert client.command("SELECT count() FROM t") == 3
    assert client.ping()


def test_the_engine_has_the_settings_of_its_file(client: Client) -> None:
    """An idle store takes an eighth of the time with them."""
    asked = client.query("SELECT value FROM system.server_settings WHERE name = 'memory_worker_period_ms'")
    assert asked.result_rows == [("250",)]


def test_settings_last_for_one_request(client: Client) -> None:
    read = "SELECT getSetting('max_block_size')"
    usual = client.query(read).result_rows
    assert client.query(read, settings={"max_block_size": 1234}).result_rows == [(1234,)]
    assert client.query(read).result_rows == usual


def test_a_parameter_is_a_value_never_a_part_of_the_statement(client: Client) -> None:
    nasty = "x'; DROP TABLE spans; --\\\n{n:UInt64}"
    assert client.query("SELECT {s:String}", parameters={"s": nasty}).result_rows == [(nasty,)]


def test_many_parameters_travel_as_a_form(client: Client) -> None:
    values = [f"{number:032x}" for number in range(5000)]
    assert client.query("SELECT length({v:Array(String)})", parameters={"v": values}).result_rows == [(5000,)]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic " + b64encode(b"weir:wrong").decode()},
        {"Authorization": "Basic " + b64encode(b"default:").decode()},
        {"Authorization": "Basic not-base64!"},
        {"Authorization": "Bearer token"},
        {"X-ClickHouse-User": "weir", "X-ClickHouse-Key": "wrong"},
        {"X-ClickHouse-User": "weir"},
    ],
)
def test_nobody_without_the_password_gets_an_answer(raw: Raw, headers: dict[str, str]) -> None:
    status, text, answered = raw(b"SELECT 1", headers=headers)
    assert (status, answered["X-ClickHouse-Exception-Code"]) == (403, "516")
    assert b"AUTHENTICATION_FAILED" in text


def test_key_headers_authenticate_too_and_ping_needs_no_password(raw: Raw) -> None:
    headers = {"X-ClickHouse-User": "weir", "X-ClickHouse-Key": raw.dsn.password}
    assert raw(b"SELECT 1", headers=headers)[:2] == (200, b"1\n")
    connection = http.client.HTTPConnection("127.0.0.1", raw.dsn.port)
    connection.request("GET", "/ping")
    assert connection.getresponse().read() == b"Ok.\n"


@pytest.mark.parametrize(
    ("statement", "status", "code"),
    [
        (b"SELEC 1", 400, "62"),
        (b"SELECT * FROM nowhere", 404, "60"),
        (b"SELECT nothing FROM spans", 400, "47"),
        (b"SELECT throwIf(1)", 500, "395"),
        (b"SELECT {n:UInt64}", 400, "456"),
        (b"INSERT INTO nowhere FORMAT CSV\n1", 404, "60"),
        (b"INSERT INTO spans (kind) FORMAT CSV\nabc", 400, "117"),
        (b"INSERT INTO spans FORMAT Native\ngarbage", None, None),
        (b"\xff\xfe", 400, "62"),
        (b"", 400, "62"),
    ],
)
def test_errors_carry_clickhouse_s_code_and_message(
    raw: Raw, statement: bytes, status: int | None, code: str | None
) -> None:
    found, text, headers = raw(statement)
    assert found == status if status else found >= 400
    assert text.startswith(b"Code: ")
    assert headers["X-ClickHouse-Exception-Code"] == code if code else headers["X-ClickHouse-Exception-Code"].isdigit()


def test_an_unknown_setting_is_refused_and_spoils_nothing(raw: Raw) -> None:
    assert raw(b"SELECT 1", no_such_setting="1")[0] >= 400
    assert raw(b"SELECT 1", **{"max_threads=1, readonly": "1"})[0] == 400
    for _ in range(20):  # more than there are handles
        assert raw(b"SELECT 1")[:2] == (200, b"1\n")


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress), ("lz4", lz4.frame.compress)],
)
def test_bodies_may_be_compressed_even_in_several_frames(
    raw: Raw, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    head, tail = b"SELECT '" + b"x" * 100_000, b"y'"
    status, text, _ = raw(compress(head) + compress(tail), headers=raw.authorization | {"Content-Encoding": encoding})
    assert (status, len(text)) == (200, 100_002)
    for damaged in (compress(head)[:-9], b"garbage" + compress(head)):
        status, _, headers = raw(damaged, headers=raw.authorization | {"Content-Encoding": encoding})
        assert (status, headers["X-ClickHouse-Exception-Code"]) == (400, "354")


def test_an_unknown_encoding_is_refused(raw: Raw) -> None:
    status, text, _ = raw(b"SELECT 1", headers=raw.authorization | {"Content-Encoding": "br"})
    assert status == 400
    assert b"use one of gzip, deflate, zstd, lz4" in text


def test_a_bomb_is_refused_before_it_opens(raw: Raw) -> None:
    bomb = zstd.compress(bytes(400 * 2**20))
    status, _, headers = raw(bomb, headers=raw.authorization | {"Content-Encoding": "zstd"})
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (413, "1003")


def test_a_client_that_leaves_takes_nothing_with_it(raw: Raw) -> None:
    statement = b"SELECT toString(number) FROM numbers(1000000000) FORMAT TabSeparated"
    for _ in range(20):  # more than there are places
        with socket.create_connection(("127.0.0.1", raw.dsn.port)) as leaving:
            leaving.sendall(
                b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: " + raw.authorization["Authorization"].encode()
                + b"\r\nContent-Length: %d\r\n\r\n" % len(statement) + statement
            )  # fmt: skip
            assert leaving.recv(1000)
    assert raw(b"SELECT 1")[:2] == (200, b"1\n")


def test_half_an_insert_is_no_insert(raw: Raw) -> None:
    with socket.create_connection(("127.0.0.1", raw.dsn.port)) as leaving:
        leaving.sendall(
            f"POST /?query={quote('INSERT INTO requests (e2e_ns) FORMAT CSV')}&database={raw.dsn.database} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {raw.authorization['Authorization']}\r\nContent-Length: 1000\r\n\r\n1\n2\n".encode()
        )
    assert raw(b"SELECT count() FROM requests")[1] == b"0\n"


def test_an_insert_that_fails_as_it_is_written_says_so(client: Client, store: Store) -> None:
    days = pa.table({"at": pa.array(range(20), pa.uint64())})
    client.command("CREATE TABLE days (at UInt64) ENGINE = MergeTree PARTITION BY at ORDER BY at")
    with pytest.raises(DatabaseError, match="Too many partitions"):
        client.insert_arrow("days", days, settings={"max_partitions_per_insert_block": 10})
    client.insert_arrow("days", days, settings={"max_partitions_per_insert_block": 0})
    assert store.rows("SELECT count() FROM days") == [(20,)]


def test_reads_and_writes_go_on_beside_statements_that_take_their_time(raw: Raw, store: Store) -> None:
    def slow() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", raw.dsn.port))
        query = urlencode({"query": "SELECT sleepEachRow(0.2) FROM numbers(500)", "max_block_size": "1"})
        connection.sendall(
            f"GET /?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: {raw.authorization['Authorization']}\r\n\r\n".encode()
        )
        assert connection.recv(12) == b"HTTP/1.1 200"  # it has begun
        return connection

    running = [slow() for _ in range(4)]
    store.writer.insert_requests(random_rows(100, seed=1), version=1)
    assert store.latency.report(HOUR).requests == 100
    for connection in running:
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):  # still at it: neither at an end nor closed
            while connection.recv(65536):
                pass
        connection.close()


def test_a_failure_in_the_middle_of_a_result_breaks_the_connection(raw: Raw) -> None:
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        raw(b"SELECT throwIf(number = 3000000) FROM numbers(4000000) FORMAT TabSeparated")
    assert raw(b"SELECT 1")[0] == 200


def test_the_store_s_errors_are_of_two_families(store: Store, dsn: str) -> None:
    with pytest.raises(StoreError) as refused:
        store.rows("SELEC 1")
    assert refused.value.code == 62
    with pytest.raises(StoreError) as wrong:
        Store(dsn.replace(parse_dsn(dsn).password, "wrong")).overview.newest()
    assert wrong.value.code == 516
    with pytest.raises(StoreUnavailableError):
        store.rows("SELECT sleepEachRow(1) FROM numbers(30) SETTINGS max_execution_time = 1, max_block_size = 1")
    with pytest.raises(StoreUnavailableError):  # the tables are made by the telemetry process, perhaps later
        Store(f"{dsn}_not_made").overview.newest()


def test_it_leaves_room_on_its_disk_and_less_than_the_spool_leaves_it(store: Store) -> None:
    """On a full disk the engine took inserts and merges for done whose files were empty: what was merged was lost with its sources."""
    [(kept,)] = store.rows("SELECT keep_free_space FROM system.disks WHERE name = 'default'")
    reserve = IngestConfig.model_fields["spool_reserve_bytes"].default
    assert 64 * 2**20 <= kept <= reserve / 2


@pytest.mark.parametrize("code", [33, 40, 246])
def test_damaged_data_is_said_with_what_sets_it_aside(code: int) -> None:
    assert "restart it" in StoreError("Cannot read all data", code=code).remedy


def test_an_answer_that_cannot_be_read_is_one_of_the_store_s_errors(
    shared_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store with damaged data gave such ones, and pages were answered as if Weir had a defect."""

    def unreadable(*_: object, **__: object) -> None:
        b"\xff".decode()

    monkeypatch.setattr(Client, "query", unreadable)
    with pytest.raises(StoreUnavailableError, match="cannot be read"):
        shared_store.rows("SELECT 1")


def test_what_a_damaged_merge_had_comes_back_out_of_its_sources(tmp_path: Path) -> None:
    """On a full disk the engine ends merges with empty files. Their sources were deleted minutes later, and the rows were lost."""
    at_once = "from controlplane.telemetry.store import __main__ as store; from controlplane.telemetry.store.embedded import front;"
    script = f"{at_once} front.MEND_AFTER_S = 0.0; store.main()"
    argv = [sys.executable, "-c", script, "--home", str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process, contextlib.ExitStack() as ended:
        ended.callback(process.kill)
        store = Store(dsn_of(process))
        store.command("CREATE TABLE damaged (k UInt64) ENGINE = MergeTree ORDER BY k")
        for k in (1, 2):
            store.command(f"INSERT INTO damaged SELECT {k}")
        store.command("OPTIMIZE TABLE damaged FINAL")
        [(merged,)] = store.rows("SELECT path FROM system.parts WHERE table = 'damaged' AND active")
        for file in Path(merged).iterdir():
            os.truncate(file, 0)
        with pytest.raises(StoreError) as refused:
            store.rows("SELECT sum(k) FROM damaged")
        assert "restart it" in refused.value.remedy
        assert process.wait(60) == 0
    with store_process(tmp_path) as process:
        assert Store(dsn_of(process)).rows("SELECT sum(k) FROM damaged") == [(3,)]


def test_it_has_its_folder_alone_and_one_password_and_comes_back_at_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_process(tmp_path, stderr=subprocess.PIPE) as process:
        dsn = dsn_of(process)
        store = Store(dsn, connect_timeout_s=1)
        assert store.overview.newest() is None
        second = subprocess.run(process.args, capture_output=True, text=True, timeout=60)
        assert (second.returncode, "Traceback" in second.stderr) == (1, False)
        assert "another process has it open" in second.stderr
        process.terminate()
        _, logged = process.communicate(timeout=60)
        assert process.returncode == 0
    assert not store.ping()
    with pytest.raises(StoreUnavailableError) as away:
        store.overview.newest()
    assert away.value.retry_after_s > 0
    monkeypatch.setattr(store_client, "PROBE_AFTER_S", 600.0)  # the query itself meets it
    with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{parse_dsn(dsn).port}") as away:
        store.overview.newest()
    assert "?" not in str(away.value), "pages show it, and have no use for the query's URL"
    with store_process(tmp_path, "--port", str(parse_dsn(dsn).port)) as process:
        assert dsn_of(process) == dsn  # the password is kept
        assert store.overview.newest() is None
        process.terminate()
    file, password = tmp_path / "store-password", parse_dsn(dsn).password
    assert file.read_text() == password
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert password not in logged
    assert password not in repr(parse_dsn(f"clickhouse://weir:{password}@h/d"))


def test_a_taken_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with store_process(tmp_path, "--port", str(taken.getsockname()[1]), stderr=subprocess.PIPE) as process:
            _, text = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "address already in use" in text
    assert "Traceback" not in text


def test_the_summary_counts_what_was_written(raw: Raw) -> None:
    _, _, headers = raw(b"INSERT INTO schema_versions (version) FORMAT CSV\n7\n8\n9\n")
    assert json.loads(headers["X-ClickHouse-Summary"])["written_rows"] == "3"


def test_it_says_of_itself_what_it_does_to_those_who_know_the_password(raw: Raw) -> None:
    def asked(token: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", raw.dsn.port, timeout=120)
        accept = "application/openmetrics-text; version=1.0.0"
        connection.request("GET", "/metrics", headers={"Accept": accept, "Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def figure(name: str, **labels: str) -> float:
        families = text_string_to_metric_families(asked(raw.dsn.password)[1])
        return sum(
            one.value
            for family in families
            for one in family.samples
            if one.name == name and labels.items() <= one.labels.items()
        )

    rows = figure("weir_store_written_rows_total")
    inserts = figure("weir_store_statement_seconds_count", kind="insert")
    refused = figure("weir_store_statements_failed_total", code="60")
    raw(b"INSERT INTO schema_versions (version) FORMAT CSV\n7\n8\n9\n")
    raw(b"SELECT * FROM nowhere")
    assert figure("weir_store_written_rows_total") == rows + 3
    assert figure("weir_store_statement_seconds_count", kind="insert") == inserts + 1
    assert figure("weir_store_statements_failed_total", code="60") == refused + 1
    assert figure("process_resident_memory_bytes") > 0
    assert asked("wrong")[0] == 401


def test_a_client_without_an_answerable_database_hears_so(front_dsn: str) -> None:
    where = parse_dsn(front_dsn)
    with pytest.raises(DatabaseError, match="UNKNOWN_DATABASE"):
        clickhouse_connect.get_client(
            host=where.host, port=where.port, username=where.user, password=where.password, database="no"
        )
