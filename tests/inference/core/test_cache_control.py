"""What a request's `Cache-Control` means."""

import pytest

from inference.contract.snapshot_parts import CacheRule
from inference.core.cache_control import USUAL, CacheControl, read
from inference.core.openai.errors import ApiError


@pytest.mark.parametrize(
    ("said", "control"),
    [
        ("", USUAL),
        ("no-transform, min-fresh=5, x=1, x", USUAL),
        ("no-store", CacheControl(stores=False)),
        ("No-Cache", CacheControl(max_age_s=0)),
        ("max-age=60", CacheControl(max_age_s=60)),
        ('max-age="60" , only-if-cached', CacheControl(max_age_s=60, only_if_cached=True)),
        ("max-age=60,no-cache,max-age=5", CacheControl(max_age_s=0)),
        ("max-age=5,max-age=60", CacheControl(max_age_s=5)),
        ("max-age=soon", CacheControl(max_age_s=0)),
        ("max-age=-1", CacheControl(max_age_s=0)),
        ("max-age", CacheControl(max_age_s=0)),
        ('x="no-store, no-cache"', USUAL),
        (",,no-store,,", CacheControl(stores=False)),
    ],
)
def test_directives(said: str, control: CacheControl) -> None:
    assert read({b"cache-control": said.encode()}) == control
    assert control.is_usual is (control == USUAL)


def test_tags() -> None:
    assert read({b"x-weir-cache-tags": b" docs-v2,faq ,, "}) == CacheControl(tags=("docs-v2", "faq"))
    for wrong in (b"A", b"a b", b"a/b", b"a" * 101, b"\xe4", b",".join(b"t%d" % number for number in range(9))):
        with pytest.raises(ApiError, match="at most 8 names"):
            read({b"x-weir-cache-tags": wrong})


def test_grounds_are_the_same_in_any_order() -> None:
    read_grounds = [
        read({b"x-weir-grounds": text}).grounds for text in (b"manual@7; doc=12@3", b"doc=12@3;manual@7;; manual@7")
    ]
    assert read_grounds == [("doc=12@3", "manual@7")] * 2 and not read({b"x-weir-grounds": b" ;"}).grounds
    for wrong in (b"a b", b"a" * 201, b"\xe4", b";".join(b"doc=%d" % number for number in range(65))):
        with pytest.raises(ApiError, match="at most 64 names"):
            read({b"x-weir-grounds": wrong})


def test_how_long_an_answer_is_kept() -> None:
    """The shortest of what is said of its routing rule, operation and tags; a request only shortens it."""
    rule = CacheRule(ttl_s=3600, ttls_s={"embeddings": 9000, "tag:weather": 30, "tag:docs": 7000})
    assert [USUAL.ttl_of(rule, operation) for operation in ("chat", "embeddings")] == [3600, 9000]
    assert [USUAL.ttl_of(rule, "embeddings", routed_s) for routed_s in (8000, 9500)] == [8000, 9000]
    tagged = read({b"x-weir-cache-tags": b"docs, faq"})
    assert [tagged.ttl_of(rule, operation) for operation in ("chat", "embeddings")] == [7000, 7000]
    assert read({b"x-weir-cache-tags": b"docs, weather"}).ttl_of(rule, "chat", 100) == 30
    assert read({b"x-weir-cache-ttl": b"60"}).ttl_of(rule, "chat") == 60
    assert (tagged.is_usual, read({b"x-weir-cache-ttl": b"60"}).is_usual) == (True, False)
    assert read({b"x-weir-cache-ttl": b"7200"}).ttl_of(rule, "chat") == 3600
    rule = CacheRule(stales_s={"chat": 90, "tag:weather": 5})
    assert [USUAL.stale_for(rule, operation) for operation in ("chat", "embeddings")] == [90, 0]
    assert read({b"x-weir-cache-tags": b"docs, weather"}).stale_for(rule, "chat") == 5
    assert read({b"x-weir-cache-ttl": b"60"}).stale_for(rule, "chat") == 0
    assert not read({b"x-weir-cache-ttl": b"0"}).stores
    for wrong in (b"", b"-1", b"1.5", b"soon", b"9999999999"):
        with pytest.raises(ApiError, match="number of seconds"):
            read({b"x-weir-cache-ttl": wrong})
