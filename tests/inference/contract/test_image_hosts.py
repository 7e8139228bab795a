"""Which hosts and addresses images may have."""

import pytest

from inference.contract.image_hosts import allowed, is_host, is_public


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("64:ff9b::93.184.216.34", True),
        *(
            (address, False)
            for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")
        ),
        *((address, False) for address in ("::1", "fd00::1", "fe80::1%eth0", "::ffff:10.0.0.1", "2002:7f00:1::")),
        *(
            (address, False)
            for address in ("64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "no address", "")
        ),
    ],
)
def test_addresses_on_the_internet(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_hosts_that_an_owner_allows() -> None:
    patterns = ("images.example.com", "*.cdn.example.org")
    for host in ("images.example.com", "IMAGES.example.com.", "a.cdn.example.org", "a.b.cdn.example.org"):
        assert allowed(host, patterns)
    for host in (
        "example.com",
        "x.images.example.com",
        "cdn.example.org",
        "evilcdn.example.org",
        "images.example.com.evil.org",
        "",
    ):
        assert not allowed(host, patterns)
    assert all(map(is_host, patterns))
    long = ".".join(["a" * 61] * 4)
    assert is_host(long + ".abcde") and not is_host(long + ".abcdef"), "253 characters"
    assert not any(map(is_host, ("localhost", "10.0.0.1", "*", "*.*.com", "a/b.com", "A.com", "a.com:443", "")))
