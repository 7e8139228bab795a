"""Alarms of decisions, in the index of changes: each has its subject, whatever that is."""

from datetime import UTC, datetime

import pytest

from controlplane.policy.core.decision import Alarm, Decision, ModelDecision, TargetDecision
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.record import Record
from controlplane.policy.write_records import changes

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("subject", "pool", "model"), [("chat/eu", "chat/eu", ""), ("chat", "", "chat"), ("eu-west", "", "")]
)
def test_the_subject_is_a_pool_or_a_model_only_where_it_is_one(subject: str, pool: str, model: str) -> None:
    decision = Decision(
        1,
        {"chat/eu": TargetDecision("chat/eu", "p@1", 2, 2, "none", "")},
        {"chat": ModelDecision("chat")},
        (Alarm(f"metrics:{subject}", "metrics", subject, "nothing is known", "page"),),
        Memory(),
    )
    record = Record(1, 0, Observation(now_ms=0), (), Memory(), decision)
    [change] = [each for each in changes(record, {}, (), NOW) if each.kind == "alarm"]
    assert (change.subject, change.pool, change.model, change.about) == (subject, pool, model, subject)
