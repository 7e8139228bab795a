"""What is found in texts, whatever stands around it, and what is left alone."""

import pytest

from inference.core.guard.patterns import find, replaced

PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7b3dGk2mZxqLw1\n"
    + "q0Zk3bVh5nT8y2cJf4sDg6hKlPoIuYtReWqAzXcVbN==\n" * 20
    + "-----END RSA PRIVATE KEY-----"
)
ALL = ("card", "key", "mail")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("4111 1111 1111 1111", "[card]"),
        ("pay with 4111-1111-1111-1111, please", "pay with [card], please"),
        ("x4111111111111111x", "x[card]x"),
        ("378282246310005 and 3782 822463 10005", "[card] and [card]"),
        ("on 12 4111 1111 1111 1111 03", "on 12 [card] 03"),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "[card]"),
        ("4111 1111 1111 1112", None),  # its last digit is wrong
        ("9111 1111 1111 1111", None),
        ("0" * 16, None),
        ("a number of 41111111111111114111111111111111 digits", None),
        ("2026-11-26 21:50:05.123456", None),
        ("sk-abcdefghijklmnopqrstuvwx0123", "[key]"),
        ("key=AKIAIOSFODNN7EXAMPLE.", "key=[key]."),
        ("ghp_" + "a1" * 18, "[key]"),
        ("weir_key_" + "a" * 43, "[key]"),
        (f"so {PEM} it is", "so [key] it is"),
        (PEM[:90], "[key]"),
        (f"{PEM} and {PEM}", "[key] and [key]"),
        (
            "a file begins with -----BEGIN PRIVATE KEY----- and then has lines",
            "a file begins with [key] and then has lines",
        ),
        ("-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEA7b3dGk2mZxqLw1\n-----END CERTIFICATE-----", None),
        ("ask-abcdefghijklmnopqrstuvwx0123", None),
        ("sk-learn is a library", None),
        ("write to a.b+c@mail.example.com.", "write to [mail]."),
        ("<rita@example.com>", "<[mail]>"),
        ("a@b", None),
        ("@example.com", None),
        ("decorators such as @pytest.fixture", None),
        ("rita@example.com 4111 1111 1111 1111 sk-abcdefghijklmnopqrstuvwx", "[mail] [card] [key]"),
    ],
)
def test_what_is_found_and_what_is_not(text: str, masked: str | None) -> None:
    assert replaced(text, find(text, ALL)) == (text if masked is None else masked)


def test_only_what_is_wanted_is_found() -> None:
    assert [each.pattern for each in find("rita@example.com 4111111111111111", ("mail",))] == ["mail"]


def test_a_long_text_is_looked_through_to_its_end() -> None:
    card = "4111 1111 1111 1111"
    text = "".join(f"{'word ' * (6_500 + number)}{card} " for number in range(12))
    assert replaced(text, find(text, ALL)).count("[card]") == 12 and card not in replaced(text, find(text, ALL))
