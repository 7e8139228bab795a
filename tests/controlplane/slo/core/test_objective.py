"""What an objective accepts, and which scopes it judges."""

from typing import Any

import pytest

from controlplane.slo.core.count_plan import GRID_S
from controlplane.slo.core.objective import SLICES_S, Objective, Timeslices
from controlplane.slo.core.sli import Availability
from controlplane.telemetry.core.dimension_values import MAX_VALUE_CHARS


def objective(**values: Any) -> Objective:
    return Objective("up", "", Availability(), 0.99, **values)


@pytest.mark.parametrize("slice_s", SLICES_S)
def test_slices_are_whole_steps_that_divide_an_hour(slice_s: int) -> None:
    assert (slice_s % GRID_S, 3_600 % slice_s) == (0, 0)


@pytest.mark.parametrize(("length_s", "counted_s"), [(300, 600), (600, 600), (610, 610)])
def test_a_window_counts_at_least_one_slice(length_s: int, counted_s: int) -> None:
    assert objective(method=Timeslices(600)).counted_s(length_s) == counted_s
    assert objective().counted_s(length_s) == length_s


@pytest.mark.parametrize(
    ("scope", "judged"),
    [
        ({"model": "a", "tier": "gold"}, True),
        ({"model": "a", "tier": ""}, True),
        ({"model": "b", "tier": "gold"}, False),
        ({"model": "a"}, False),
        ({"tier": "gold"}, False),
        ({"model": "a", "tier": "gold", "region": "eu"}, False),
    ],
)
def test_it_judges_its_scope_with_any_value_of_what_it_is_split_by(scope: dict[str, str], judged: bool) -> None:
    assert objective(scope={"model": "a"}, split_by=("tier",)).judges(scope) is judged


def test_a_value_of_its_scope_may_be_as_long_as_the_ledgers() -> None:
    objective(scope={"model": "m" * MAX_VALUE_CHARS})
    with pytest.raises(ValueError, match="is not a text of at most"):
        objective(scope={"model": "m" * (MAX_VALUE_CHARS + 1)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scope": {"planet": "mars"}}, "use one of model, variant, pool"),
        ({"split_by": ("planet",)}, "use one of model, variant, pool"),
        ({"scope": {"model": 7}}, "is not a text of at most"),
        ({"scope": {"model": "a", "tier": "b"}, "split_by": ("tier",)}, "split_by=tier is in scope too"),
    ],
)
def test_an_invalid_scope_is_refused_with_the_remedy(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        objective(**given)
