"""What an answer means, and when to try again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from controlplane.incidents.notify.delivery.core.retry import Answer, Policy, classify, next_attempt_s, retry_after_s

POLICY = Policy()
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("statuses", "means"),
    [
        ((200, 202, 204), "delivered"),
        ((301, 307, 400, 401, 403, 404, 410, 413, 422), "refused"),
        ((408, 425, 429, 500, 502, 503, 504, 599, None), "again"),
    ],
)
def test_what_may_pass_is_tried_again_and_what_is_wrong_with_the_request_is_not(
    statuses: tuple[int | None, ...], means: str
) -> None:
    assert {classify(Answer(status)) for status in statuses} == {means}
    assert classify(Answer(None, "10.0.0.1 is not a public address", blocked=True)) == "refused"


@given(some.integers(1, 10_000), some.floats(0, 1))
def test_the_wait_doubles_up_to_the_longest_and_keeps_half_of_it(attempts: int, chance: float) -> None:
    full = min(POLICY.longest_s, POLICY.first_s * 2 ** min(attempts - 1, 32))
    assert full / 2 <= next_attempt_s(attempts, Answer(503), POLICY, chance) <= full


@given(some.floats(0, 1e9), some.floats(0, 1))
def test_a_pause_that_is_asked_for_is_kept_but_never_silences_pages(pause: float, chance: float) -> None:
    wait_s = next_attempt_s(1, Answer(429, retry_after_s=pause), POLICY, chance)
    assert wait_s >= min(pause, POLICY.longest_pause_s)
    assert wait_s <= max(POLICY.first_s, POLICY.longest_pause_s * 1.1)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 120 ", 120.0),
        ("Fri, 20 Nov 2026 12:00:30 GMT", 30.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
        ("9" * 400, 999_999_999.0),
    ],
)
def test_both_forms_of_retry_after_are_read(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds


def test_a_claim_outlasts_an_attempt() -> None:
    assert POLICY.lease_s > POLICY.timeout_s
