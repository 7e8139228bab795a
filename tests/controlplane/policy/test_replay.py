"""`manage.py policy replay`: stored decisions are made again."""

import subprocess
import sys

import msgspec
import pytest
from django.utils import timezone
from msgspec import structs

from controlplane.policy.core.decide import decide
from controlplane.policy.core.memory import Memory
from controlplane.policy.core.record import Record, encode, record_of
from controlplane.policy.core.spec import InForce
from controlplane.policy.decider import OURS, decider, modules
from controlplane.policy.models import DecisionRecord, PolicyRevision
from tests.support import commands
from tests.support.policy.cases import pool, scaling, seen

pytestmark = pytest.mark.django_db


def decided(policy: InForce) -> Record:
    observation = seen(pool(arrived_rps=75.0))
    return record_of(observation, [policy], Memory(), decide(observation, [policy], Memory()), decider())


def stored(record: Record) -> DecisionRecord:
    return DecisionRecord.objects.create(
        at=timezone.now(), version=record.version, holder="a", generation=1, packed=DecisionRecord.pack(encode(record))
    )


@pytest.fixture
def policy() -> InForce:
    policy = scaling()
    row = PolicyRevision.objects.create(
        name=policy.name, kind="Scaling", number=1, text=msgspec.json.encode(policy.policy).decode(), author="ada"
    )
    return structs.replace(policy, id=row.pk)


def replayed(*arguments: str) -> tuple[int, str]:
    return commands.run("policy", "replay", *arguments)


def test_a_stored_decision_is_made_again(policy: InForce) -> None:
    row = stored(decided(policy))
    assert replayed() == (0, "1 of 1 decisions are made again, byte for byte.\n")
    assert replayed(row.key)[0] == 0


def test_a_decision_that_is_not_made_again_is_named(policy: InForce) -> None:
    record = decided(policy)
    targets = {name: structs.replace(each, wanted=1) for name, each in record.decision.targets.items()}
    row = stored(structs.replace(record, decision=structs.replace(record.decision, targets=targets)))
    lost = stored(decided(structs.replace(policy, id=policy.id + 1)))
    code, text = replayed()
    assert code == 1
    assert f"{row.key} of " in text
    assert "it gives another decision: the same code decides otherwise, which is a defect of Weir" in text
    assert f"{lost.key} of " in text
    assert "the policies scale@1 are missing" in text
    assert "0 of 2 decisions" in text


def test_other_code_is_said_whether_it_decides_otherwise_or_not(policy: InForce) -> None:
    older = structs.replace(decided(policy), decider="code 0123, CEL 0.1.2, Python 3.11.7")
    stored(older)
    code, text = replayed()
    assert code == 0
    assert f"1 of them were made by code 0123, CEL 0.1.2, Python 3.11.7, and this is {decider()}." in text
    targets = {name: structs.replace(each, wanted=1) for name, each in older.decision.targets.items()}
    stored(structs.replace(older, decision=structs.replace(older.decision, targets=targets)))
    code, text = replayed()
    assert code == 1
    assert f"it gives another decision: code 0123, CEL 0.1.2, Python 3.11.7 made it, and this is {decider()}" in text


def test_a_policy_that_says_something_else_than_then_is_named(policy: InForce) -> None:
    stored(decided(policy))
    other = msgspec.json.encode(scaling(min=2).policy).decode()
    PolicyRevision.objects.filter(pk=policy.id).update(text=other)
    code, text = replayed()
    assert code == 1
    assert "scale@1 says something else than when it was followed" in text


def test_every_module_that_decides_counts() -> None:
    """Those that a fresh interpreter has after importing `decide`."""
    listing = "import sys, controlplane.policy.core.decide; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout.split()
    packages = {name.rpartition(".")[0] for name in loaded}  # they have no code
    ours = {name for name in loaded if name.startswith(OURS)} - packages
    assert ours <= modules().keys()
    assert "controlplane.policy.core.spec" in ours
    of_capacity = {"forecasting.capacity.assumptions", "forecasting.capacity.pool_capacity"}
    assert {name for name in ours if name.startswith("forecasting.")} == {
        *of_capacity, "forecasting.forecast", "forecasting.series",
    }, "a change elsewhere in forecasting makes no record one of other code"  # fmt: skip


def test_an_unknown_key_is_wrong_usage() -> None:
    with pytest.raises(Exception, match="no decision has the key nope"):
        replayed("nope")
