"""An empty answer says which kind of empty it is."""

import pytest

from controlplane.telemetry.explain import Side, Split, explain, nothing


def side(requests: int, each_ns: int) -> Side:
    return Side(requests, {"model": requests * each_ns})


@pytest.mark.parametrize(
    ("chosen", "rest", "says"),
    [
        (Side(), Side(), "No answered request"),
        (Side(), side(50, 10), "None"),
        (side(50, 10), Side(), "nothing to compare"),
        (side(50, 10), side(50, 10), "as long as"),
        (side(3, 30), side(50, 10), "Too few"),
        (side(50, 30), side(50, 10), "chance"),
    ],
)
def test_each_empty_answer_has_its_reason(chosen: Side, rest: Side, says: str) -> None:
    total = Split(chosen, rest)
    assert says in str(nothing(explain(total, {"model": {"m": total}})))


def test_an_answer_with_findings_is_not_empty() -> None:
    slow, quick = Split(side(50, 30), Side()), Split(Side(), side(50, 10))
    assert nothing(explain(Split(slow.chosen, quick.rest), {"pool": {"a": slow, "b": quick}})) is None
