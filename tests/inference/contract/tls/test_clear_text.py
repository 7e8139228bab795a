import pytest
from structlog.testing import capture_logs

from inference.contract.tls.clear_text import connection, connections, reached, warn


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@redis:6379/0",
        "redis+sentinel://127.0.0.1:26379,s2:26379/main",
        "redis+cluster://10.0.0.1:6379",
        "http://weir-web:8000/internal/snapshot",
        "http://[2001:db8::1]:4318",
        "clickhouse://weir:secret@store:8123/weir",
        "postgresql://weir:secret@db:5432/weir",
        "postgresql://db/weir?sslmode=prefer",
    ],
)
def test_plain_text_to_another_machine_is_in_the_clear_and_shows_no_secret(url: str) -> None:
    made = connection("it", url)
    assert made.in_the_clear
    assert made.where and "secret" not in made.where


@pytest.mark.parametrize(
    "url",
    [
        "rediss://:secret@redis:6379/0",
        "rediss+cluster://10.0.0.1:6379",
        "redis://127.0.0.1:6379/0",
        "redis+sentinel://localhost:26379,[::1]:26379/main",
        "http://127.8.8.8:80",
        "http://weir.localhost",
        "unix:///run/redis.sock",
        "sqlite:///weir.sqlite3",
        "https://weir-web",
        "clickhouses://store/weir",
        "postgresql:///weir",
        "postgresql://localhost/weir",
        "postgresql://db/weir?sslmode=verify-full",
    ],
)
def test_what_is_encrypted_or_stays_here_is_not(url: str) -> None:
    assert not connection("it", url).in_the_clear


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "", "localhost.example.com"])
def test_what_listens_beyond_loopback_is_in_the_clear_without_a_certificate(host: str) -> None:
    assert reached("clients", host, encrypted=False).in_the_clear
    assert not reached("clients", host, encrypted=True).in_the_clear


def test_a_setting_that_is_empty_is_no_connection() -> None:
    assert [made.to for made in connections([("a", ""), ("b", "http://b")])] == ["b"]


def test_each_connection_in_the_clear_is_logged() -> None:
    with capture_logs() as logs:
        warn(connections([("a", "http://10.0.0.1"), ("b", "https://10.0.0.1"), ("c", "http://127.0.0.1")]))
    assert [(log["event"], log["to"], log["where"]) for log in logs] == [("connection.in_the_clear", "a", "10.0.0.1")]
