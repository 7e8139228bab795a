"""Revisions are kept for good, and what has an end ends."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.policy.core.observation import PoolFacts
from controlplane.policy.models import Override, Pause, PolicyRevision
from controlplane.policy.models.revision import ImmutableError
from controlplane.policy.observe.spent import Meter

pytestmark = pytest.mark.django_db


def _revision(number: int = 1, state: str = PolicyRevision.State.DRAFT) -> PolicyRevision:
    return PolicyRevision.objects.create(
        name="chat",
        kind="Scaling",
        number=number,
        text=f"spec: {{max: {number}}}",
        state=state,
        author="ada",
        team="chat",
    )


def test_the_text_of_a_revision_never_changes() -> None:
    _revision()
    row = PolicyRevision.objects.get()
    row.text = "spec: {max: 9}"
    with pytest.raises(ImmutableError, match=r"text of chat, revision 1 cannot change"):
        row.save()


def test_a_policy_has_one_active_revision_and_a_pause_ends_after_its_start() -> None:
    _revision(1, PolicyRevision.State.ACTIVE)
    with pytest.raises(IntegrityError), transaction.atomic():
        _revision(2, PolicyRevision.State.ACTIVE)
    now = timezone.now()
    with pytest.raises(IntegrityError), transaction.atomic():
        Pause.objects.create(author="ada", reason="x", starts_at=now, ends_at=now - timedelta(seconds=1))


@pytest.mark.parametrize("fields", [{"pool": "p", "replicas": 2, "step": 1}, {"replicas": 2}, {"pool": "p"}])
def test_an_override_is_of_a_pool_or_of_a_ladder(fields: dict[str, object]) -> None:
    now = timezone.now()
    with pytest.raises(IntegrityError), transaction.atomic():
        Override.objects.create(author="ada", reason="x", starts_at=now, ends_at=now + timedelta(hours=1), **fields)


def test_what_ran_while_the_controller_was_paused_is_spent_too() -> None:
    """The fewer of the replicas before and after, however long nobody looked, and from midnight on."""
    midnight_ms, meter, hours = 1_795_392_000_000, Meter(), []
    for hour, ready in ((8, 4), (9, 4), (11, 6), (11.05, 6), (26, 6)):
        at_ms = midnight_ms + round(hour * 3_600_000)
        meter.add({"chat": PoolFacts("chat", ready=ready, gpus_per_replica=1)}, at_ms)
        hours.append(round(meter.spent(at_ms)["chat"].gpu_hours_today or 0.0, 3))
    assert hours == [0.0, 4.0, 12.0, 12.3, 12.0]


def test_gpu_hours_of_a_day_are_not_known_once_replicas_of_unknown_gpus_ran() -> None:
    noon_ms = 1_795_392_000_000 + 12 * 3_600_000

    def used(meter: Meter, minute: int, gpus: int | None) -> float | None:
        at_ms = noon_ms + 60_000 * minute
        meter.add({"chat": PoolFacts("chat", ready=30, gpus_per_replica=gpus)}, at_ms)
        meter.write(at_ms)
        return meter.spent(at_ms)["chat"].gpu_hours_today

    first = Meter()
    assert [used(first, 0, 4), used(first, 1, 4), used(first, 2, None), used(first, 3, 4)] == [0.0, 2.0, None, None]
    assert used(Meter(), 4, 4) is None


def test_a_price_that_is_entered_counts_for_the_whole_day() -> None:
    """A budget of money let no replica be added until midnight."""
    noon_ms, meter = 1_795_392_000_000 + 12 * 3_600_000, Meter()
    spent = []
    for hour, usd in enumerate((None, None, 8.0, 8.0, None, 8.0)):
        at_ms = noon_ms + hour * 3_600_000
        for minutes in range(0, 60, 5):
            facts = PoolFacts("chat", ready=3, gpus_per_replica=2, usd_per_replica_hour=usd)
            meter.add({"chat": facts}, at_ms + minutes * 60_000)
        spent.append(meter.spent(at_ms)["chat"].usd_today)
    assert spent == [None, None, pytest.approx(70), pytest.approx(94), None, pytest.approx(142)]


def test_what_was_used_stays_known_where_a_new_leader_ticks_before_it_has_read_what_planning_knows() -> None:
    noon_ms = 1_795_392_000_000 + 12 * 3_600_000
    known = PoolFacts("chat", model="chat", ready=3, gpus_per_replica=2, usd_per_replica_hour=8.0, capacity_age_ms=0)
    first, second = Meter(), Meter()
    first.add({"chat": known}, noon_ms)
    first.add({"chat": known}, noon_ms + 300_000)
    first.write(noon_ms + 300_000)
    second.add({"chat": PoolFacts("chat", model="chat", ready=3)}, noon_ms + 301_000)
    second.add({"chat": known}, noon_ms + 600_000)
    spent = second.spent(noon_ms + 600_000)["chat"]
    assert (spent.gpu_hours_today, spent.usd_today) == (pytest.approx(1), pytest.approx(4))
