"""Alarms of decisions, in the index of changes: each has its subject, whatever that is."""

from datetime import UTC, datetime

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from controlplane.fleet.models import LLMModel, Pool, Region, Variant
from controlplane.policy.core.decision import Alarm, Decision, ModelDecision, TargetDecision
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.observation import Observation
from controlplane.policy.core.record import Record
from controlplane.policy.models import DecisionChange
from controlplane.policy.remember import changes

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
BEFORE = "0004_shadow_records"


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


@pytest.mark.django_db(transaction=True)
def test_alarms_of_the_version_before_get_their_subject() -> None:
    variant = Variant.objects.create(model=LLMModel.objects.create(name="chat"), name="chat")
    Pool.objects.create(name="chat-eu", variant=variant, region=Region.objects.create(name="eu"), model_name="m")
    try:
        call_command("migrate", "policy", BEFORE, verbosity=0)
        old = MigrationExecutor(connection).loader.project_state([("policy", BEFORE)]).apps
        row = old.get_model("policy", "DecisionRecord").objects.create(at=NOW, version=1, generation=1, packed=b"")
        for kind, subject in (("alarm", "chat-eu"), ("alarm", "chat"), ("alarm", "eu-west"), ("scale", "chat-eu")):
            old.get_model("policy", "DecisionChange").objects.create(
                decision=row, at=NOW, kind=kind, pool=subject, reason=subject
            )
    finally:
        call_command("migrate", verbosity=0)
    rows = DecisionChange.objects.order_by("pk").values_list("subject", "pool", "model")
    assert list(rows) == [
        ("chat-eu", "chat-eu", ""),
        ("chat", "", "chat"),
        ("eu-west", "", ""),
        ("", "chat-eu", ""),
    ]
