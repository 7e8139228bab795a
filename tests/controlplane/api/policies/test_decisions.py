"""Decisions over REST: real ones, of what a tick would have seen."""

import time

import pytest
from django.test import Client

from controlplane.policy.core.decide import VERSION, decide
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.record import record_of
from controlplane.policy.in_force import in_force
from controlplane.policy.models import DecisionRecord, PolicyRevision
from controlplane.policy.revisions import steps
from controlplane.policy.write_records import DecisionTrack
from tests.support.policy.cases import pool, seen
from tests.support.policy.people_and_texts import author, scaling, small_fleet
from tests.support.web.people import logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> Client:
    small_fleet()
    return logged_in(author("ann"))


@pytest.fixture
def decided(ann: Client) -> DecisionRecord:
    """More requests arrive than the pool's replicas carry."""
    row = steps.activate(steps.propose(scaling(9), who="ann", source="api").revision, "ann")
    policy = in_force(row)
    assert not isinstance(policy, str)
    observation = seen(pool(arrived_rps=60.0), now_ms=time.time_ns() // 1_000_000)
    decision = decide(observation, [policy], Memory())
    return DecisionTrack("active").write_record(record_of(observation, [policy], Memory(), decision), "controller-0", 1)


def test_changes_are_listed_and_lead_to_the_record(ann: Client, decided: DecisionRecord) -> None:
    [change] = ann.get("/api/v1/decisions", {"pool": "chat-eu"}).json()["changes"]
    assert (change["decision"], change["kind"], change["policy"], change["revision"], change["before"]) == (
        decided.key, "scale", "chat-replicas", 1, 4,
    )  # fmt: skip
    whole = ann.get(f"/api/v1/decisions/{decided.key}").json()
    assert whole["changes"] == [change]
    assert whole["record"]["observation"]["pools"]["chat-eu"]["arrived_rps"] == 60
    assert whole["record"]["decision"]["targets"]["chat-eu"]["wanted"] == change["after"]
    for elsewhere in (
        {"pool": "chat-us"},
        {"kind": "ladder"},
        {"policy": "other"},
        {"shadow": "true"},
        {"to": "now-1h"},
    ):
        assert ann.get("/api/v1/decisions", elsewhere).json()["changes"] == []


def test_a_record_is_decided_again_byte_for_byte_also_once_its_policy_is_retired(
    ann: Client, decided: DecisionRecord
) -> None:
    steps.retire(PolicyRevision.objects.get(), "ann")
    again = ann.get(f"/api/v1/decisions/{decided.key}/replay").json()
    assert again["equal"] is True
    assert again["decision"] == ann.get(f"/api/v1/decisions/{decided.key}").json()["record"]["decision"]


def test_a_record_of_a_newer_release_says_so(ann: Client, decided: DecisionRecord) -> None:
    newer = decided.record.replace(b'"version":%d' % VERSION, b'"version":999', 1)
    DecisionRecord.objects.update(packed=DecisionRecord.pack(newer))
    answer = ann.get(f"/api/v1/decisions/{decided.key}/replay")
    assert answer.status_code == 409
    assert "replay it with a newer release" in answer.json()["detail"]


def test_a_key_that_is_none_is_named(ann: Client) -> None:
    answer = ann.get("/api/v1/decisions/nonsense")
    assert (answer.status_code, answer.json()["field"]) == (422, "key")
    assert ann.get(f"/api/v1/decisions/{'0' * 16}").status_code == 404
