from datetime import UTC, datetime, timedelta

import pytest

from controlplane.accounts.core.standing import ReadTimes, Said, groups_now, groups_of, is_due

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
PATIENCE = ReadTimes(reread_s=60, outage_s=3600)


@pytest.mark.parametrize(
    ("age_s", "due", "counts"), [(0, False, True), (60, True, True), (3600, True, True), (3601, True, False)]
)
def test_the_last_word_is_asked_for_again_and_counts_for_as_long_as_an_outage_may_last(
    age_s: int, due: bool, counts: bool
) -> None:
    said = Said(frozenset({"staff"}), NOW - timedelta(seconds=age_s))
    assert is_due(said, NOW, PATIENCE) == due
    assert groups_now(said, NOW, PATIENCE) == (frozenset({"staff"}) if counts else None)


def test_who_was_refused_is_in_no_group_and_is_not_asked_for_again() -> None:
    said = Said(frozenset({"staff"}), NOW - timedelta(hours=2), refused=True)
    assert groups_now(said, NOW, PATIENCE) is None and not is_due(said, NOW, PATIENCE)


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        ({"groups": ["a", "b"]}, {"a", "b"}),
        ({"groups": "a"}, {"a"}),
        ({}, set()),
        ({"groups": None}, set()),
        ({"hasgroups": True}, None),
        ({"_claim_names": {"groups": "src1"}}, None),
    ],
)
def test_an_absent_claim_is_no_group_and_groups_that_are_elsewhere_are_unknown(
    claims: dict[str, object], groups: set[str] | None
) -> None:
    assert groups_of(claims, "groups") == groups
