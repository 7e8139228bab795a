"""The fleet as files: what they say comes into force, all or nothing, and what a fleet is can be written as such files."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management import call_command

from controlplane.accounts import rights
from controlplane.accounts.core.actions import EDIT_FLEET
from controlplane.core.documents.writing import join_documents
from controlplane.fleet.files import kinds
from controlplane.fleet.files.apply import apply
from controlplane.fleet.files.export import export
from controlplane.fleet.files.kinds import stored, text_of
from controlplane.fleet.files.revisions import texts_at, write
from controlplane.fleet.models import (
    CachePurge,
    FleetRevision,
    GatewayKey,
    LLMModel,
    Pool,
    Price,
    Replica,
    Team,
    Tenant,
    Tier,
    Variant,
)
from controlplane.planning.models import PlannedEvent, PoolCapacity
from controlplane.policy.models import PolicyRevision
from controlplane.slo.models import StoredObjective
from tests.support.entered_fleet import applied, as_gateways_get_it, emptied, entered_fleet
from tests.support.policy.people_and_texts import scaling
from tests.support.slo.objective_file import OBJECTIVE
from tests.support.slo.openslo_files import slo
from tests.support.web.people import member

pytestmark = pytest.mark.django_db
COMMITTED = pytest.mark.django_db(transaction=True)

TIER = """\
# What customers pay for.
apiVersion: weir/v1
kind: Tier
metadata:
  name: gold
spec:
  priority: 1
  timeouts:
    queue_ms: 500
"""


def test_a_fleet_goes_into_an_empty_database_as_it_was(home: Path) -> None:
    entered_fleet()
    texts, snapshot = export(), as_gateways_get_it()
    emptied()
    assert export() == {}
    write()
    done = apply(texts, label="repo")
    write()
    assert (done.done, done.problems) == (True, [])
    assert export() == texts
    assert as_gateways_get_it() == snapshot
    again = apply(texts, label="repo")
    assert {step.action for step in again.steps} == {"unchanged"}


def test_a_document_has_what_differs_from_the_defaults_and_reads_back_as_it_is(home: Path) -> None:
    assert applied(TIER) == (["+ Tier gold"], [])
    assert "---\n".join(export().values()) == TIER.partition("\n")[2]
    changed = applied(TIER.replace("500", "700"))
    assert changed == (["~ Tier gold", "    timeouts.queue_ms: 500 → 700"], [])


@pytest.mark.parametrize(
    ("of", "to", "line", "words"),
    [
        ("kind: Tier", "kind: Teir", 3, "kind is 'Teir': use Team, Region"),
        ("weir/v1", "v1", 2, "apiVersion is 'v1': write weir/v1"),
        ("  priority: 1", "  prio: 1", 7, "'prio' is no field: use priority"),
        ("priority: 1", "priority: '1'", 7, "priority is '1': write a whole number"),
        ("priority: 1", "priority: 40", 7, "priority=40: Ensure this value is less than or equal to 9."),
        ("name: gold", "name: Gold!", 5, "name='Gold!': “Gold!” is not a name"),
        ("    queue_ms: 500", "  - queue_ms: 500", 8, "is no mapping"),
        ("queue_ms: 500", "queue_ms: -1", 9, "queue_ms=-1: Ensure this value is greater"),
    ],
)
def test_what_cannot_be_is_said_with_its_line_and_nothing_is_applied(
    home: Path, of: str, to: str, line: int, words: str
) -> None:
    _, problems = applied(f"{TIER.replace(of, to)}---\n{TIER.replace('gold', 'silver')}")
    assert problems and words in problems[0], problems
    assert problems[0].startswith(f"fleet.yaml:{line}:")
    assert not Tier.objects.exists() and not FleetRevision.objects.exists()


def test_what_a_document_names_has_to_be_there_or_in_the_files(home: Path) -> None:
    tenant = TIER.replace("kind: Tier", "kind: Tenant").partition("spec:")[0] + "spec: {tier: gold}\n"
    assert "tier='gold' is no tier: choose another, or apply it too" in applied(tenant)[1][0]
    assert applied(f"{tenant}---\n{TIER}") == (["+ Tenant gold", "+ Tier gold"], [])


def test_rules_between_fields_hold_as_in_the_admin(home: Path) -> None:
    entered_fleet()
    text = export(["Pool"])["pool-chat-eu"].replace("url: http://chat-eu:8000/v1", "grpc: chat-eu:8001")
    assert "url: The pool's servers are reached by this" in applied(text, adopt=True)[1][0]
    assert Replica.objects.get(name="chat-eu-0").url


def test_what_gateways_would_refuse_is_refused(home: Path) -> None:
    entered_fleet()
    text = export(["TokenIssuer"])["tokenissuer-login"]
    refused = applied(text + "  algorithms: [HS256]\n", adopt=True)[1]
    assert "gateways would refuse issuer login: " in refused[0]


def test_files_own_what_they_made_and_nothing_else(home: Path) -> None:
    Tier.objects.create(name="gold")
    write()
    assert applied(TIER)[0] == ["! Tier gold (was made by hand: rename it, or adopt it)"]
    assert applied(TIER, adopt=True)[1] == []
    conflict = "belongs to the owner label 'repo': rename it, apply it there, or adopt it"
    assert applied(TIER, label="other")[0] == [f"! Tier gold ({conflict})"]
    Tier.objects.create(name="by-hand")
    assert applied(TIER.replace("gold", "silver"), prune=True)[0] == ["+ Tier silver", "- Tier gold"]
    assert set(Tier.objects.values_list("name", flat=True)) == {"silver", "by-hand"}
    Tier.objects.create(name="gold")
    write()
    assert applied(TIER.replace("gold", "silver"), prune=True)[0] == ["= Tier silver"], "it was made by hand this time"


@COMMITTED
def test_a_dry_run_says_the_same_and_changes_nothing(home: Path) -> None:
    entered_fleet()
    texts = export()
    before = FleetRevision.objects.count()
    apply(texts, label="repo", adopt=True)
    dry = apply({"a": TIER}, label="repo", prune=True, dry_run=True)
    wet = apply({"a": TIER}, label="repo", prune=True)
    assert (dry.steps, dry.done, wet.done) == (wet.steps, False, True)
    assert FleetRevision.objects.count() == before + 2, "the adoption, and what was applied"
    assert list(export()) == ["tier-gold"]


def test_what_goes_with_a_row_is_said_and_what_is_used_stays(home: Path) -> None:
    entered_fleet()
    apply(export(), label="repo", adopt=True)
    write()
    GatewayKey.objects.issue(Tenant.objects.get(name="shop"), "web")
    CachePurge.objects.create(model=LLMModel.objects.get(name="search"), prompt_version="1")
    LLMModel.objects.create(name="summaries", semantic_embedder=LLMModel.objects.get(name="org/embed"))
    lines, problems = applied(TIER, prune=True)
    assert "- Tenant shop (also deletes 1 gateway key)" in lines
    assert [each for each in problems if "Model org/embed is used by summaries: change or remove that too" in each]
    assert Tenant.objects.filter(name="shop").exists()
    LLMModel.objects.get(name="summaries").delete()
    assert applied(TIER, prune=True)[1] == []
    assert list(export()) == ["tier-gold"]


def test_prices_of_one_moment_keep_their_order(home: Path) -> None:
    entered_fleet()
    model = LLMModel.objects.get(name="search")
    for usd in (2, 1, 3):
        Price.objects.create(model=model, usd_per_1k_prompt_tokens=usd, usd_per_1k_output_tokens=usd)
    texts, snapshot = export(), as_gateways_get_it()
    Price.objects.filter(model=model).first().delete()  # type: ignore[union-attr]
    assert apply(texts, label="repo", adopt=True).done
    assert as_gateways_get_it() == snapshot


CHANGES: dict[str, Callable[[str], str]] = {
    "tier-batch": lambda text: text.replace("priority: 3", "priority: 4"),
    "model-search": lambda text: text + "  enabled: false\n",
    "model-search ": lambda text: text.replace("team: search", "team: serving"),
    "model-chat": lambda text: text.replace("team: serving", "team: search"),
    "pool-chat-us": lambda text: text.replace("secret:hosted", "secret:theirs"),
    "pool-chat-us ": lambda text: text.replace("vllm-openai:v1", "vllm-openai:v2"),
    "pool-chat-us  ": lambda text: text.replace("variant: chat", "variant: search"),
    "model-org+embed": lambda text: text + "  fallbacks: [{pool: search-eu}]\n",
    "model-chat ": lambda text: text.replace("semantic_embedder: org/embed", "semantic_embedder: search"),
    "model-chat  ": lambda text: text + "  semantic_judge: search\n",
}


def test_an_owner_applies_what_is_the_teams_and_nothing_else(home: Path) -> None:
    entered_fleet()
    texts = export()
    apply(texts, label="repo", adopt=True)
    write()
    guard = rights.guard(member("rita", "owner", team="serving"), EDIT_FLEET)
    mine = texts["model-chat"].replace("first_token_ms: 700", "first_token_ms: 800")
    assert apply({"mine": mine}, label="repo", guard=guard).done
    for file, change in CHANGES.items():
        text = texts[file.strip()]
        assert change(text) != text
        with pytest.raises(PermissionDenied, match="administrator"):
            apply({file: change(text)}, label="repo", guard=guard)


@COMMITTED
def test_one_command_takes_fleet_policies_and_objectives(home: Path, tmp_path: Path, capsys: Any) -> None:
    entered_fleet()
    file = tmp_path / "all.yaml"
    file.write_text(join_documents([slo("late"), *export().values(), scaling(pool="chat-eu")]))
    emptied()
    call_command("weir", "check", str(file))
    assert "24 documents: no errors, no warnings" in capsys.readouterr().out
    assert not Pool.objects.exists()
    call_command("weir", "apply", str(file), "--note", "new cluster")
    assert PolicyRevision.objects.get().state == "active" and StoredObjective.objects.get().slug == "late"
    assert FleetRevision.objects.latest("number").note == "new cluster"
    call_command("weir", "export", "--to", str(tmp_path / "out"))
    assert {path.stem for path in (tmp_path / "out").iterdir()} >= {
        "scaling-chat-replicas",
        "slo-late",
        "model-org+embed",
    }
    capsys.readouterr()
    call_command("weir", "export", "Model", "Scaling", "--team", "search")
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("  name")] == ["  name: search"]
    file.write_text(file.read_text().replace("pool: chat-eu", "pool: none").replace("queue_ms: 900", "queue_ms: 901"))
    with pytest.raises(SystemExit):
        call_command("weir", "apply", str(file))
    out = capsys.readouterr().out
    assert "error" in out and "'none'" in out and "Nothing was applied" in out
    assert "901" not in "".join(export().values())


@COMMITTED
def test_every_change_is_one_revision_that_says_what_the_fleet_is(home: Path) -> None:
    """Renames, and what goes with a row, are changes of every document that has its name."""

    def as_it_is() -> dict[Any, str]:
        return {key: text_of(key, values, whole=True) for key, values in stored().items()}

    entered_fleet()
    assert texts_at() == as_it_is()
    for change in (
        lambda: _renamed(Tier.objects.get(name="premium"), "gold"),
        lambda: _renamed(LLMModel.objects.get(name="org/embed"), "embed"),
        lambda: _renamed(Pool.objects.get(name="search-eu"), "search-west"),
        lambda: Team.objects.get(name="serving").delete(),
        lambda: Variant.objects.get(name="search").delete(),
        lambda: Tenant.objects.get(name="shop").delete(),
    ):
        change()
        assert texts_at() == as_it_is()


def _renamed(row: Any, name: str) -> None:
    row.name = name
    row.save()


@COMMITTED
def test_a_person_and_the_way_are_in_the_revision(home: Path, owner: Any) -> None:
    entered_fleet()
    row = Tier.objects.get(name="batch")
    limits = dict.fromkeys(("requests_per_minute", "tokens_per_minute", "max_in_flight", "reserved_percent"), 0)
    fields = {"name": "batch", "priority": 4, "weight": 1, **limits}
    assert owner.post(f"/admin/fleet/tier/{row.pk}/change/", fields).status_code == 302
    made = FleetRevision.objects.latest("number")
    assert User.objects.filter(username=made.author).exists() and made.via == "admin"


def test_an_objective_is_a_document_with_revisions_of_its_own(home: Path) -> None:
    entered_fleet()
    assert applied(OBJECTIVE)[0] == ["+ Objective chat-ttft"]
    assert applied(OBJECTIVE.replace("0.95", "0.99"))[0][1:] == ["    target: 0.95 → 0.99"]
    row = StoredObjective.objects.get()
    assert (row.target, [each.number for each in row.revisions.all()]) == (0.99, [2, 1])
    assert export(["Objective"]) == {"objective-chat-ttft": OBJECTIVE.replace("0.95", "0.99")}
    wrong = applied(OBJECTIVE.replace("measure: ttft", "measure: speed"))[1]
    assert wrong[0].startswith("fleet.yaml:7:3: error: ") and "speed" in wrong[0]
    guard = kinds.guard(member("ona", "owner", team="search"), EDIT_FLEET)
    with pytest.raises(PermissionDenied, match="edit objectives"):
        apply({"fleet.yaml": OBJECTIVE}, label="repo", guard=guard)


PLAN = """\
apiVersion: weir/v1
kind: PlanSettings
metadata: {name: all}
spec: {level: 0.95}
---
apiVersion: weir/v1
kind: PoolCapacity
metadata: {name: chat-eu}
spec:
  gpu_type: h100
  entries:
    - {gpu_type: h100, requests_per_s: 4}
---
apiVersion: weir/v1
kind: GpuType
metadata: {name: h100}
spec:
  usd_per_hour: 3.5
  quotas:
    - {region: eu, gpus: 16}
---
apiVersion: weir/v1
kind: RegionCalendar
metadata: {name: eu}
spec: {country: DE, zone: Europe/Berlin}
"""


def test_what_plans_assume_is_in_files_and_what_was_measured_is_not(home: Path) -> None:
    entered_fleet()
    assert applied(PLAN) == (
        ["+ PlanSettings all", "+ PoolCapacity chat-eu", "+ GpuType h100", "+ RegionCalendar eu"],
        [],
    )
    for _ in range(2):
        PlannedEvent.objects.create(name="Launch of v2", start=datetime(2026, 12, 1, 9, tzinfo=UTC))
    event = export(["PlannedEvent"])
    assert list(event) == [f"plannedevent-launch-of-v2-20261201-0900{each}" for each in ("", "-2")]
    assert applied(event["plannedevent-launch-of-v2-20261201-0900"] + "  duration_s: 600\n", adopt=True)[0][1:] == [
        "    duration_s: 86400 → 600"
    ]
    pool = PoolCapacity.objects.get()
    pool.entries.create(gpu_type=pool.gpu_type, source="benchmark", requests_per_s=6)
    assert applied(PLAN)[0] == ["= PlanSettings all", "= PoolCapacity chat-eu", "= GpuType h100", "= RegionCalendar eu"]
    assert (pool.gpu_type.usd_per_hour, pool.gpu_type.quotas.get().gpus, pool.entries.count()) == (3.5, 16, 2)
    changed = applied(PLAN.replace("country: DE", "country: XX"))[1]
    assert changed[0].startswith("fleet.yaml:25:8: error: country: ")
    lost = applied(PLAN.replace("metadata: {name: chat-eu}", "metadata: {name: chat-moon}"))[1]
    assert lost == ["fleet.yaml:8:12: error: pool='chat-moon' is no pool: choose another, or apply it too [refused]"]
