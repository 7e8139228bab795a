"""What is different about the slow ones: what was planted is found, and what is chance is not."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.explain.difference import Explanation, Side, Split, explain, nothing
from tests.support.soak import sized

Request = tuple[dict[str, str], dict[str, int]]  # dimensions, stages in ns


def split(requests: Iterable[tuple[Request, bool]]) -> Split:
    sides: dict[bool, tuple[int, dict[str, int]]] = {True: (0, {}), False: (0, {})}
    for (_, stages), chosen in requests:
        count, totals = sides[chosen]
        sides[chosen] = (
            count + 1,
            {stage: totals.get(stage, 0) + ns for stage, ns in {**dict.fromkeys(totals, 0), **stages}.items()},
        )
    return Split(Side(*sides[True]), Side(*sides[False]))


def explained(requests: list[Request], chosen: Callable[[Request], bool], limit: int = 10) -> Explanation:
    judged = [(request, chosen(request)) for request in requests]
    by: dict[str, dict[str, list[tuple[Request, bool]]]] = defaultdict(lambda: defaultdict(list))
    for request, slow in judged:
        for dimension, value in request[0].items():
            by[dimension][value].append((request, slow))
    dimensions: Mapping[str, Mapping[str, Split]] = {
        d: {v: split(r) for v, r in values.items()} for d, values in by.items()
    }
    return explain(split(judged), dimensions, limit)


def slowest(requests: list[Request], share: float) -> Callable[[Request], bool]:
    edge = sorted(sum(stages.values()) for _, stages in requests)[int(len(requests) * (1 - share))]
    return lambda request: sum(request[1].values()) >= edge


def traffic(n: int = 4000, seed: int = 1) -> list[Request]:
    """Requests of two models and five replicas for 800 tenants; replica r3 has a queue."""
    chance = random.Random(seed)
    made = []
    for i in range(n):
        model = chance.choice(["small", "large"])
        replica = f"r{chance.randrange(5)}"
        stages = {"model": chance.randint(90, 110) + (40 if model == "large" else 0), "queue": chance.randint(0, 10)}
        if replica == "r3":
            stages["queue"] += chance.randint(100, 300)
        made.append(({"model": model, "replica": replica, "tenant": f"t{i % 800}"}, stages))
    return made


def test_the_replica_with_the_queue_comes_first_with_its_stage_and_no_tenant_that_is_slow_by_chance() -> None:
    requests = traffic()
    found = explained(requests, slowest(requests, 0.1))
    first = found.findings[0]
    assert (first.dimension, first.value, first.stage) == ("replica", "r3", "queue")
    assert first.accounts_for > 0.5
    assert first.chosen_share > 0.95
    assert first.lift is not None and first.lift > 4
    assert found.dimensions[0].dimension == "replica"
    assert all(finding.dimension != "tenant" for finding in found.findings)
    assert sum(stage.ns for stage in found.stages) == pytest.approx(found.difference_ns)
    assert sum(stage.share for stage in found.stages) == pytest.approx(1)
    assert found.stages[0].stage == "queue"


def test_a_dimension_that_decides_alone_accounts_for_nearly_all() -> None:
    requests: list[Request] = [
        ({"cache": "miss" if i % 4 == 0 else "hit"}, {"model": 1000 if i % 4 == 0 else 10}) for i in range(4000)
    ]
    found = explained(requests, lambda request: request[0]["cache"] == "miss")
    (account,) = found.dimensions
    assert account.share == pytest.approx(1, abs=0.02)
    assert [(f.value, f.rest, f.lift) for f in found.findings] == [("miss", 0, None)]


def test_what_has_nothing_to_do_with_it_is_not_told() -> None:
    chance = random.Random(3)
    requests: list[Request] = [
        ({"tier": chance.choice("abc")}, {"model": chance.randint(1, 1000)}) for _ in range(3000)
    ]
    found = explained(requests, slowest(requests, 0.1))
    assert (found.findings, found.dimensions) == ([], [])
    assert found.difference_ns > 0


def test_a_pool_and_its_only_replica_are_told_once() -> None:
    requests = [({"pool": r[0]["replica"][1], "replica": r[0]["replica"]}, r[1]) for r in traffic()]
    found = explained(requests, slowest(requests, 0.1))
    assert [(f.dimension, f.value, f.same_as) for f in found.findings] == [("pool", "3", (("replica", "r3"),))]


def test_no_more_are_told_than_asked_for() -> None:
    requests = [(r[0] | {"twin": r[0]["replica"] + r[0]["model"]}, r[1]) for r in traffic()]
    assert len(explained(requests, slowest(requests, 0.1), limit=1).findings) == 1


def test_exemplars_come_along() -> None:
    slow, rest = Side(50, {"model": 50_000}), Side(950, {"model": 9_500})
    found = explain(
        Split(slow, rest), {"replica": {"r1": Split(slow, Side(), ("ab" * 16,)), "r2": Split(Side(), rest)}}
    )
    assert [(f.value, f.exemplars) for f in found.findings] == [("r1", ("ab" * 16,))]


@pytest.mark.parametrize(
    "total",
    [Split(Side(), Side()), Split(Side(3, {"model": 9}), Side()), Split(Side(2, {"model": 8}), Side(1, {"model": 4}))],
)
def test_with_nothing_to_compare_nothing_is_found(total: Split) -> None:
    found = explain(total, {"model": {"m": total}})
    assert (found.stages, found.dimensions, found.findings) == ([], [], [])


sides = st.builds(
    Side,
    st.integers(0, 200),
    st.dictionaries(st.sampled_from(["queue", "model", "unattributed"]), st.integers(0, 10**12)),
)


@settings(max_examples=sized(50, soak=500), deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.builds(Split, sides, sides), max_size=6))
def test_whatever_the_figures_it_answers(values: dict[str, Split]) -> None:
    def add(one: Side, other: Side) -> Side:
        stages = {*one.stage_ns, *other.stage_ns}
        return Side(
            one.requests + other.requests, {s: one.stage_ns.get(s, 0) + other.stage_ns.get(s, 0) for s in stages}
        )

    total = Split(Side(), Side())
    for value in values.values():
        total = Split(add(total.chosen, value.chosen), add(total.rest, value.rest))
    found = explain(total, {"d": values})
    assert sum(stage.ns for stage in found.stages) == pytest.approx(found.difference_ns if found.stages else 0, abs=1)
    assert all(finding.accounts_for > 0 for finding in found.findings)
    assert [f.accounts_for for f in found.findings] == sorted((f.accounts_for for f in found.findings), reverse=True)


def alike(requests: int, each_ns: int) -> Side:
    return Side(requests, {"model": requests * each_ns})


@pytest.mark.parametrize(
    ("chosen", "rest", "says"),
    [
        (Side(), Side(), "No answered request"),
        (Side(), alike(50, 10), "None"),
        (alike(50, 10), Side(), "nothing to compare"),
        (alike(50, 10), alike(50, 10), "as long as"),
        (alike(3, 30), alike(50, 10), "Too few"),
        (alike(50, 30), alike(50, 10), "chance"),
    ],
)
def test_each_empty_answer_has_its_reason(chosen: Side, rest: Side, says: str) -> None:
    total = Split(chosen, rest)
    assert says in str(nothing(explain(total, {"model": {"m": total}})))


def test_an_answer_with_findings_is_not_empty() -> None:
    slow, quick = Split(alike(50, 30), Side()), Split(Side(), alike(50, 10))
    assert nothing(explain(Split(slow.chosen, quick.rest), {"pool": {"a": slow, "b": quick}})) is None
