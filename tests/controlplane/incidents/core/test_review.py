"""What a handover and a review say of the incidents of a time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.incidents.core.review import SHIFT, Past, review, shift_of

DAY = datetime(2026, 11, 20, tzinfo=UTC)
AT = st.integers(-48, 72).map(lambda hours: DAY + timedelta(hours=hours))


def past(number: int, opened_h: float, **more: object) -> Past:
    given_ = {"of": "chat", "name": "Chat", "severity": "page", **more}
    return Past(number, opened_at=DAY + timedelta(hours=opened_h), **given_)  # type: ignore[arg-type]


def test_means_are_over_pages_of_the_range_and_the_others_are_counted_beside_them() -> None:
    found = review(
        [
            past(1, 1, acknowledged_at=DAY + timedelta(hours=1, minutes=4), resolved_at=DAY + timedelta(hours=2)),
            past(2, 9, acknowledged_at=DAY + timedelta(hours=9, minutes=8), of="other", name="Other"),
            past(3, 10),
            past(4, 10, severity="ticket"),
            past(5, -5, resolved_at=DAY + timedelta(hours=1)),
            past(6, -9, resolved_at=DAY - timedelta(hours=1)),
        ],
        DAY,
        DAY + timedelta(days=1),
    )
    assert (found.pages, found.tickets, found.resolved) == (3, 1, 2)
    assert (found.mtta_s, found.unacknowledged) == (360, 1)
    assert (found.mttr_s, found.unresolved) == (3600, 2)
    assert [pages for _, pages in found.by_shift] == [1, 2, 0]
    assert [(each.of, each.pages, each.open_s) for each in found.noisiest] == [
        ("chat", 2, 3600 + 14 * 3600 * 2 + 3600),
        ("other", 1, 15 * 3600),
    ]


def test_what_is_not_known_is_not_zero() -> None:
    found = review([past(1, 1), past(2, 2, bad=0)], DAY, DAY + timedelta(hours=8))
    assert found.mtta_s is None and found.mttr_s is None
    assert found.causes == [] and found.unattributed == 1


def test_the_budget_is_split_by_stage_and_what_no_stage_explains_is_not_known() -> None:
    found = review(
        [past(1, 1, bad=90, shares={"queue": 0.8}), past(2, 2, bad=10, shares={"model": 1.0})],
        DAY,
        DAY + timedelta(hours=8),
    )
    assert {cause.name: cause.bad for cause in found.causes} == pytest.approx(
        {"queue": 72, "not known": 18, "model": 10}
    )
    assert sum(cause.share for cause in found.causes) == pytest.approx(1)


@given(st.lists(st.tuples(AT, st.none() | st.integers(0, 100)), max_size=20), st.integers(1, 72))
def test_every_page_of_the_range_is_in_one_shift_and_nothing_was_open_for_longer_than_it(
    opened: list[tuple[datetime, int | None]], hours: int
) -> None:
    ends = DAY + timedelta(hours=hours)
    pages = [
        Past(n, "a", "A", "page", at, resolved_at=at + timedelta(hours=lasted) if lasted is not None else None)
        for n, (at, lasted) in enumerate(opened)
    ]
    found = review(pages, DAY, ends)
    assert sum(count for _, count in found.by_shift) == found.pages == sum(DAY <= at < ends for at, _ in opened)
    assert all(shift_of(at) == at and at < ends and at + SHIFT > DAY for at, _ in found.by_shift)
    assert all(0 <= each.open_s <= hours * 3600 * len(pages) for each in found.noisiest)
