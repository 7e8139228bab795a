"""What WEIR_REDIS_URL may be."""

import pytest

from inference.config import ConfigError, load
from inference.wires.redis.url import RedisUrl, RedisUrlError, parse


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("redis://127.0.0.1:6379/0", RedisUrl("server", (("127.0.0.1", 6379),))),
        ("redis://", RedisUrl("server", (("127.0.0.1", 6379),))),
        (
            "rediss://u:p%40ss@redis.example/3",
            RedisUrl("server", (("redis.example", 6379),), tls=True, user="u", password="p@ss", database=3),
        ),
        ("redis://[::1]:7000", RedisUrl("server", (("::1", 7000),))),
        ("unix:///run/redis.sock?db=2", RedisUrl("server", (), path="/run/redis.sock", database=2)),
        (
            "redis+sentinel://:pw@a:26379,b/main/1?sentinel_password=s",
            RedisUrl(
                "sentinel",
                (("a", 26379), ("b", 26379)),
                password="pw",
                database=1,
                master="main",
                sentinel_password="s",
            ),
        ),
        (
            "rediss+cluster://:pw@a:7000,b:7001",
            RedisUrl("cluster", (("a", 7000), ("b", 7001)), tls=True, password="pw"),
        ),
    ],
)
def test_urls(url: str, meant: RedisUrl) -> None:
    assert parse(url) == meant
    assert "pw" not in parse(url).where


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://redis", "'http' is not known: use redis://"),
        ("redis+ring://a", r"'redis\+ring' is not known"),
        ("redis+sentinel://a:26379", "master's name is missing"),
        ("redis+cluster://a/2", "leave it out"),
        ("redis://a:port", "write HOST:PORT"),
        ("redis://a/first", "'first' is not a number"),
    ],
)
def test_a_wrong_url_is_refused_with_the_remedy(url: str, reason: str) -> None:
    with pytest.raises(RedisUrlError, match=reason):
        parse(url)


def test_a_wrong_url_is_refused_at_the_start_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_REDIS_URL", "http://:secret@host")
    with pytest.raises(ConfigError) as refused:
        load()
    assert str(refused.value).startswith("WEIR_REDIS_URL is refused: the scheme 'http' is not known")
    assert "secret" not in str(refused.value)
