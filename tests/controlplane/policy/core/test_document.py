"""Policies as documents: every problem names its field, its value and a remedy, and has a place."""

from typing import Any

import msgspec
import pytest

from controlplane.policy.core import spec
from controlplane.policy.core.checks import Fleet, unknown_names
from controlplane.policy.core.document import digest_of, read, read_single
from controlplane.policy.core.spec import Degradation, Scaling

SCALING = """\
apiVersion: weir/v1
kind: Scaling
metadata: {name: chat-large}
spec:
  pool: chat-large-eu
  max: 8
"""
LADDER = """\
apiVersion: weir/v1
kind: Degradation
metadata: {name: ladder}
spec:
  model: chat-large
  tiers: [batch, standard]
  steps:
    - {name: short, enter: queue_delay_s > 2.0, exit: queue_delay_s < 0.5, max_output_tokens: 256}
    - {name: shed, enter: saturation > 2.0, exit: saturation < 1.0, shed: {retry_after_s: 20}}
"""
ROUTING = """\
apiVersion: weir/v1
kind: Routing
metadata: {name: edge-first}
spec:
  model: chat-large
  rules:
    - {name: edge, when: {max_prompt_tokens: 2000}, routes: {edge: 1}, fallbacks: [central]}
  failover:
    - {name: edge-down, pools: [edge], to: {central: 1}}
"""
CANARY = """\
apiVersion: weir/v1
kind: Canary
metadata: {name: new}
spec: {model: chat-large, baseline: old, candidate: new}
"""


def problems(text: str) -> list[str]:
    return [problem.text() for problem in read(text, "p.yaml")[1]]


def test_a_file_has_several_policies_with_their_texts_and_a_revision_a_single_one() -> None:
    policies, faults = read(f"# the pool\n{SCALING}---\n{LADDER}", "p.yaml")
    assert faults == []
    assert [type(each.policy) for each in policies] == [Scaling, Degradation]
    assert policies[0].text.startswith("# the pool\n")
    assert policies[1].node.mark.line == 9
    policy, faults = read_single(f"{SCALING}---\n{LADDER}", "p.yaml")
    assert policy is None
    assert [fault.message for fault in faults] == ["a revision has a single policy: remove the others"]


def test_json_is_read_too() -> None:
    text = '{"apiVersion": "weir/v1", "kind": "Scaling", "metadata": {"name": "a"}, "spec": {"pool": "p", "max": 2}}'
    policy, faults = read_single(text)
    assert isinstance(policy, Scaling)
    assert (policy.spec.max, faults) == (2, [])


def test_the_digest_is_that_of_the_meaning() -> None:
    first, _ = read_single(SCALING)
    same, _ = read_single(SCALING.replace("  max: 8\n", "  max: 8 # replicas\n  min: 1\n"))
    other, _ = read_single(SCALING.replace("8", "9"))
    assert first and same and other
    assert digest_of(first) == digest_of(same) != digest_of(other)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "p.yaml:1:1: error: there is no policy: begin with `apiVersion: weir/v1` and a kind"),
        ("- 3", "a policy is a mapping, and this is 3"),
        ("kind: Scaling", "apiVersion is missing: write weir/v1"),
        ("{apiVersion: v2, kind: Scaling}", "apiVersion is 'v2': write weir/v1"),
        ("{apiVersion: weir/v1, kind: Scalling}", "kind is 'Scalling': write Scaling"),
        ("{apiVersion: weir/v1, kind: Scaling, spec: {}}", "metadata is missing: write a mapping with name"),
        (SCALING.replace("max: 8", "max: 0"), ":6:3: error: spec.max is 0: write a whole number from 1 to 10000"),
        (SCALING.replace("max: 8", "max: '8'"), "spec.max is '8': write a whole number"),
        (SCALING.replace("max: 8", "min: 8"), "spec.max is missing: write a whole number from 1 to 10000"),
        (SCALING + "  mx: 8\n", ":7:3: error: spec.mx is not known: write max"),
        (SCALING + "  min: 9\n", "spec.min is 9, and spec.max is 8: write at most 8"),
        (SCALING + "  warm_floor: 9\n", "spec.warm_floor is 9: write at most spec.max, 8"),
        (SCALING + "  gateway: api\n", "spec.pool and spec.gateway: both are given"),
        (SCALING.replace("pool: chat-large-eu", "min: 1"), "spec.pool and spec.gateway: neither is given"),
        (SCALING.replace("pool: chat-large-eu", "gateway: api"), "spec.reactive has neither replica_rps nor cpu_use"),
        (SCALING + "  other_owner: stopp\n", "spec.other_owner is 'stopp': write stop"),
        (
            SCALING + "  reactive: {utilisation: 80}\n",
            "spec.reactive.utilisation is 80: write a number above 0 and at most 1",
        ),
        (SCALING + "  reactive: {cpu_use: 0.5}\n", "spec.reactive.cpu_use is 0.5: it is for the API tier"),
        (
            SCALING + "  reactive: {burn_rate: 6}\n",
            "spec.objective is not: name the objective that it is about",
        ),
        (
            SCALING + "  reactive: {metrics: [{name: a, most: 1}, {name: a, most: 2}]}\n",
            "spec.reactive.metrics[1] is a, as an earlier one: keep either",
        ),
        (
            SCALING.replace("pool:", "gateway:") + "  reactive: {replica_rps: 9, metrics: [{name: a, most: 1}]}\n",
            "spec.reactive.metrics[0].labels is empty, and this is the API tier",
        ),
        (
            SCALING + "  reactive: {metrics: [{name: 'a b', most: 1}]}\n",
            "spec.reactive.metrics[0].name is 'a b': write a name: letters, digits, '_', ':' and '.', at most 200, first no digit",
        ),
        (SCALING + "  schedules: [{name: a, floor: 9}]\n", "spec.schedules[0].floor is 9: write at most spec.max, 8"),
        (SCALING + "  schedules: [{name: a, floor: 2, start: '25:00'}]\n", "spec.schedules[0].start is '25:00'"),
        (
            SCALING + "  schedules: [{name: a, floor: 2, end: '00:00'}]\n",
            "spec.schedules[0].start is 00:00: write a time",
        ),
        (
            SCALING + "  schedules: [{name: a, floor: 2, zone: Europe/Berlim}]\n",
            "there is no time zone 'Europe/Berlim': write Europe/Berlin",
        ),
        (SCALING + "  schedules: [{name: a, floor: 2, dates: ['2026-02-30']}]\n", "there is no day 2026-02-30"),
        (SCALING + "  reactive: null\n", "spec.reactive is null: write a mapping with utilisation"),
        (SCALING + "  hold_when: waiting > 3\n", "every number here has a decimal point: write 'waiting > 3.0'"),
        (SCALING + "---\n" + SCALING, ":10:12: error: 'chat-large' is also on line 1: rename either"),
        (LADDER.replace("[batch, standard]", "[]"), "spec.tiers is empty: name the tiers"),
        (LADDER.replace("standard]", "batch]"), "spec.tiers has 'batch' twice"),
        (
            LADDER.replace("exit: queue_delay_s < 0.5", "exit: queue_delay_s > 2.0"),
            "spec.steps[0].exit is the same as enter",
        ),
        (LADDER.replace("exit: queue_delay_s < 0.5", "exit: ''"), "spec.steps[0].exit is empty: write a condition"),
        (
            LADDER.replace("queue_delay_s < 0.5", "queue_delay < 0.5"),
            "'queue_delay' is not known here: write 'queue_delay_s'",
        ),
        (LADDER.replace(", max_output_tokens: 256", ""), "step 'short' does nothing: give it pool"),
        (LADDER.replace("max_output_tokens: 256", "partial: true"), "no step up to here has max_output_tokens"),
        (LADDER.replace("name: shed", "name: short"), "spec.steps[1].name is 'short', as an earlier one"),
        (LADDER.replace("max_output_tokens: 256", "shed: {}"), "step 'shed' comes after one that sheds all requests"),
        (
            LADDER.replace("shed: {retry_after_s: 20}", "max_output_tokens: 300"),
            "and a step before has 256 already: write less",
        ),
        (ROUTING.replace("{edge: 1}", "{edge: 0}"), "spec.rules[0].routes: all weights are 0"),
        (ROUTING.replace("{edge: 1}", "{'ed ge': 1}"), "spec.rules[0].routes has the name 'ed ge': write a name"),
        (
            ROUTING.replace("{max_prompt_tokens: 2000}", "{min_prompt_tokens: 9, max_prompt_tokens: 8}"),
            "no prompt has both",
        ),
        (ROUTING.replace("to: {central: 1}", "to: {edge: 1}"), "has 'edge', which is failed over from"),
        (ROUTING.replace("to: {central: 1}", "to: {}"), "spec.failover[0].to has no weight"),
        (
            ROUTING.replace("when: {max_prompt_tokens: 2000}, ", "").replace(
                "  failover", "    - {name: b}\n  failover"
            ),
            "rule 'edge' matches every request, so no later rule is reached",
        ),
        (CANARY.replace("candidate: new", "candidate: old"), "spec.candidate is 'old', as spec.baseline"),
        (
            CANARY.replace("candidate: new}", "candidate: new, steps: [50, 5]}"),
            "spec.steps is [50, 5]: write percents that rise",
        ),
        (
            CANARY.replace("candidate: new}", "candidate: new, alpha: 0.6}"),
            "spec.alpha is 0.6: write a number above 0 below 0.5",
        ),
        (
            LADDER.replace("enter: queue_delay_s > 2.0", "enter: [1]"),
            "spec.steps[0].enter is a list of 1: write a text of at most 2000 characters",
        ),
    ],
)
def test_a_problem_names_field_value_and_remedy(text: str, problem: str) -> None:
    assert [line for line in problems(text) if problem in line], problems(text)


def test_a_pool_may_have_the_weight_0_beside_another() -> None:
    assert problems(ROUTING.replace("{edge: 1}", "{edge: 0, central: 1}")) == []


def test_every_field_with_a_fault_is_named_at_once() -> None:
    text = SCALING.replace("max: 8", "max: 0\n  mn: 3\n  forecast: sometimes")
    assert len(problems(text)) == 3


def test_names_that_the_fleet_does_not_have_get_the_nearest_one() -> None:
    fleet = Fleet(models=["chat-large"], pools=["edge", "centre"], tiers=["batch", "premium"])
    routing, _ = read_single(ROUTING)
    ladder, _ = read_single(LADDER)
    assert routing and ladder
    assert [message for _, message in unknown_names(routing, fleet)] == [
        "spec.rules[0].fallbacks: there is no pool 'central': write centre",
        "spec.failover[0].to: there is no pool 'central': write centre",
    ]
    assert [message for _, message in unknown_names(ladder, fleet)] == [
        "spec.tiers: there is no tier 'standard': use one of batch, premium"
    ]


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        (spec.Count, (0, 10_000), (-1, 10_001)),
        (spec.AtLeastOne, (1, 10_000), (0, 10_001)),
        (spec.Seconds, (0.0, 604_800.0), (-0.1, 604_800.1)),
        (spec.Milliseconds, (1, 86_400_000), (0, 86_400_001)),
        (spec.Share, (0.001, 1.0), (0.0, 1.001)),
        (spec.Positive, (0.001, 1e12), (0.0, 1e12 + 1)),
        (spec.Tokens, (1, 100_000_000), (0, 100_000_001)),
        (spec.Weight, (0, 10_000), (-1, 10_001)),
        (spec.Probability, (0.001, 0.499), (0.0, 0.5)),
        (spec.Name, ("a", "a" * 100), ("", "a" * 101)),
        (spec.ModelName, ("a", "a" * 200), ("", "a" * 201)),
        (spec.Text, ("", "a" * 1_000), ("a" * 1_001,)),
        (spec.Condition, ("", "a" * 2_000), ("a" * 2_001,)),
        (spec.TimeOfDay, ("", "a" * 20), ("a" * 21,)),
        (spec.Date, ("", "a" * 20), ("a" * 21,)),
    ],
)
def test_values_are_taken_up_to_their_bounds(kind: Any, taken: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    assert [msgspec.convert(value, kind) for value in taken] == list(taken)
    for value in refused:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, kind)


@pytest.mark.parametrize(
    "part", [each for each in vars(spec).values() if isinstance(each, type) and issubclass(each, spec.Spec)]
)
def test_a_member_that_no_part_has_is_refused(part: type[spec.Spec]) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `replicsa`"):
        msgspec.convert({"replicsa": 3}, part)
