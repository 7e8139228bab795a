"""Conditions in CEL: checked when saved, and unknown where a variable is."""

import math
from typing import Any

import pytest

from controlplane.policy.core.conditions import TRUTHS, VARIABLES, Truth, Value, fault_of, holds, names_in
from controlplane.policy.core.observation import PoolFacts
from controlplane.policy.core.pool_values import clock, pool_values, saturation


@pytest.mark.parametrize(
    ("condition", "values", "truth"),
    [
        ("queue_delay_s > 2.0", {"queue_delay_s": 3.0}, True),
        ("queue_delay_s > 2.0", {"queue_delay_s": 2.0}, False),
        ("queue_delay_s > 2.0", {}, None),
        ("queue_delay_s > 2.0", {"queue_delay_s": None}, None),
        ("queue_delay_s > 2.0", {"queue_delay_s": math.nan}, None),
        ("queue_delay_s > 2.0 || waiting > 5.0", {"waiting": 6.0}, True),
        ("queue_delay_s > 2.0 || waiting > 5.0", {"waiting": 4.0}, None),
        ("queue_delay_s > 2.0 && waiting > 5.0", {"waiting": 4.0}, False),
        ("at_most && waiting > 5.0", {"waiting": 6.0, "at_most": True}, True),
        ("!at_most", {"at_most": True}, False),
        ("", {}, False),
        ("  ", {}, False),
    ],
)
def test_an_unknown_variable_makes_a_condition_unknown_unless_the_rest_decides(
    condition: str, values: dict[str, Value], truth: bool | None
) -> None:
    assert holds(condition, "ladder", values).holds is truth


def test_what_is_unknown_is_named_and_names_in_quotes_are_no_variables() -> None:
    truth = holds("queue_delay_s > 2.0 && waiting > 5.0", "ladder", {"queue_delay_s": 3.0})
    assert truth == Truth(None, ("waiting",))
    assert names_in("'waiting' == 'ready' || saturation > 1.0", "ladder") == ("saturation",)


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        ("waiting > 3", "column 9: every number here has a decimal point: write 'waiting > 3.0'"),
        ("waiting > 3 && kv_use > 1", "write 'waiting > 3.0 && kv_use > 1.0'"),
        ("wating > 3.0", "column 1: 'wating' is not known here: write 'waiting'"),
        ("x > 3.0", "'x' is not known here: use one of arrived_rps, waiting"),
        ("waiting", "gives double, not true or false: compare it, such as 'waiting > 1.0'"),
        ("waiting >", "column 10: Syntax error"),
        ("at_most > 1.0", "compare numbers with numbers such as 2.0"),
        ("waiting > 1.0 &&\nnope", "line 2, column 1: 'nope' is not known here"),
    ],
)
def test_a_condition_that_cannot_be_saved_says_why(condition: str, fault: str) -> None:
    assert fault in fault_of(condition, "ladder")


def test_every_variable_can_be_used() -> None:
    for where, variables in VARIABLES.items():
        for name in variables:
            assert fault_of(f"{name} > 1.0", where) == ""
            assert holds(f"{name} > 1.0", where, {name: 2.0}).holds is True
        for name in TRUTHS[where]:
            assert fault_of(name, where) == ""


def test_of_no_pool_nothing_is_known() -> None:
    """No step of a ladder is left because the fleet has lost the pools of its model."""
    assert set(pool_values([], 120.0).values()) == {None}


BY_REQUESTS, BY_SLOTS = {"arrived_rps": 6.0, "capacity_rps": 2.0}, {"in_flight": 3.0, "waiting": 1.0, "slots": 8}


@pytest.mark.parametrize(
    ("pools", "share"),
    [
        ([{"ready": 2, **BY_REQUESTS, **BY_SLOTS}], 1.5),
        ([{"ready": 2, **BY_SLOTS}], 0.25),
        ([{"ready": 2, **BY_REQUESTS}, {"ready": 1, **BY_SLOTS}], 3.5 / 3),
        ([{"ready": 2, **BY_REQUESTS}, {"ready": None, **BY_SLOTS}], None),
        ([{"ready": 2, **BY_SLOTS, "waiting": None}], None),
        ([{"ready": 2, "arrived_rps": 6.0, "capacity_rps": 0.0}], None),
        ([{"ready": 0, **BY_REQUESTS}], 1.0),
        ([{"ready": 0, **BY_REQUESTS, "arrived_rps": 0.0}], 0.0),
    ],
)
def test_saturation_is_the_load_in_places_of_ready_replicas(pools: list[dict[str, Any]], share: float | None) -> None:
    assert saturation([PoolFacts(pool="p", **pool) for pool in pools]) == share


def test_the_clock_is_that_of_utc() -> None:
    assert clock(1_764_244_836_000) == {"hour_utc": 12 + 0.01, "weekday_utc": 4.0}, (
        "Thursday, 27 November 2025, 12:00:36"
    )
