"""An objective over requests whose figure nobody knows is unknown, and says so."""

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Cost, Latency
from controlplane.slo.core.windows import HOUR_S
from controlplane.slo.evaluate import unknown_figures
from controlplane.slo.evaluate.evaluator import Evaluator
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.store import Store, StoreLimitError
from controlplane.telemetry.store.read.objectives import ObjectiveReader
from tests.support.slo.evaluations import NOW_S, NS, evaluated
from tests.support.slo.ledger_rows import rows

CHEAP = Objective("cheap", "", Cost(1e6), 0.5)
PER_MODEL = replace(CHEAP, slug="per-model", split_by=("model",))


def states(store: Store) -> dict[tuple[str, str], tuple[str, str]]:
    evaluator = Evaluator(store)
    found = evaluated(evaluator, [CHEAP, PER_MODEL])
    return {(one.alert.objective.slug, one.alert.scope.get("model", "")): (one.alert.state, one.why) for one in found}


def test_requests_without_a_price_are_not_good(store: Store) -> None:
    made = rows(random.Random(7), 400, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    answered = [replace(row, status="ok", prompt_tokens=100, output_tokens=10, cost_usd=0.001) for row in made]
    store.writer.insert_requests(answered, 1)
    models = {row.model for row in answered}
    before = states(store)
    assert set(before) == {("cheap", ""), *(("per-model", model) for model in models)}
    assert not any("no price" in why for _, why in before.values())

    unpriced = min(models)
    without = [replace(row, cost_usd=None) for row in answered if row.model == unpriced]
    store.writer.insert_requests(without, 2)
    after = states(store)
    assert set(after) == set(before), "a model without any price is there, and not left out"
    for (slug, model), (state, why) in after.items():
        concerned = slug == "cheap" or model == unpriced
        assert ("no price" in why) is concerned and (state == "unknown" or not concerned), (slug, model)
    assert after["per-model", unpriced][1].startswith(f"{len(without):,} requests of the last hour")


def test_nobody_is_told_to_enter_prices_where_the_server_counts_no_tokens(store: Store) -> None:
    made = rows(random.Random(7), 40, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    told = replace(made[0], status="ok", prompt_tokens=100, output_tokens=None, cost_usd=None)
    priced = [replace(row, status="ok", prompt_tokens=100, output_tokens=10, cost_usd=0.001) for row in made[1:]]
    store.writer.insert_requests([told, *priced], 1)
    said = "the server counted no tokens of the answers to 1 request of the last hour, so what they cost is not known"
    assert states(store)["cheap", ""] == ("unknown", said)


def test_while_it_is_not_known_whether_requests_have_a_price_nothing_is_quiet(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rows(random.Random(7), 400, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    store.writer.insert_requests([replace(row, status="ok", prompt_tokens=100, cost_usd=0.001) for row in made], 1)
    assert {state for state, _ in states(store).values()} == {"quiet"}

    def refused(*_: object) -> None:
        raise StoreLimitError("out of memory", 1.0)

    monkeypatch.setattr(ObjectiveReader, "unpriced", refused)
    found = states(store)
    assert {state for state, _ in found.values()} == {"unknown"}
    assert found["cheap", ""][1] == "whether its requests had a price is not known: out of memory"


def test_where_a_look_takes_long_the_others_are_looked_at_with_the_next_tick_and_are_not_known_until_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took the time of the store's limit, one after the other, before any objective was judged."""
    made = rows(random.Random(7), 400, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    store.writer.insert_requests([replace(row, status="ok", prompt_tokens=100, cost_usd=0.001) for row in made], 1)
    clock_s, asked = [0.0], []

    def takes_long(_: ObjectiveReader, window: Window, scope: dict[str, str], split_by: object) -> dict[object, object]:
        clock_s[0] += 30.0
        asked.append(scope["tier"])
        return {}

    monkeypatch.setattr(ObjectiveReader, "unpriced", takes_long)
    monkeypatch.setattr(unknown_figures, "time", SimpleNamespace(monotonic=lambda: clock_s[0]))
    evaluator = Evaluator(store)
    objectives = [replace(CHEAP, slug=tier, scope={"tier": tier}) for tier in ("batch", "premium")]
    first = evaluator.tick(objectives, [], NOW_S * NS)
    assert asked == ["batch"]
    assert first[1].why == "whether its requests had a price is not known: it was not looked at yet"
    evaluated(evaluator, objectives)
    assert asked[:2] == ["batch", "premium"]
    assert "looked at" not in evaluator.tick(objectives, [], NOW_S * NS)[1].why


def test_an_objective_with_another_scope_is_not_judged_by_the_requests_of_the_one_before(store: Store) -> None:
    made = rows(random.Random(7), 400, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    free, priced = sorted({row.model for row in made})[:2]
    store.writer.insert_requests(
        [replace(row, status="ok", prompt_tokens=100, cost_usd=0.001 if row.model == priced else None) for row in made],
        1,
    )
    evaluator = Evaluator(store)
    known = replace(CHEAP, scope={"model": priced})
    assert [one.alert.state for one in evaluated(evaluator, [known])] == ["quiet"]
    assert [one.alert.state for one in evaluated(evaluator, [replace(CHEAP, scope={"model": free})])] == ["unknown"]


@pytest.mark.parametrize(("unmeasured", "state"), [(0, "quiet"), (4, "quiet"), (5, "unknown"), (40, "unknown")])
@pytest.mark.parametrize("stage", ["queue", "network"])
def test_requests_without_spans_of_their_server_were_not_quick_there(
    store: Store, stage: str, unmeasured: int, state: str
) -> None:
    """Unknown once so many lack them that these alone could miss the target."""
    made = rows(random.Random(7), 40, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    at_once = {"status": "ok", "error_type": "", "model": "chat-large", "unmeasured": False}
    quick = [replace(row, **at_once, stages=dict.fromkeys(row.stages, 0)) for row in made]
    without = [replace(row, unmeasured=True, model="chat-small") for row in quick[:unmeasured]]
    store.writer.insert_requests([*without, *quick[unmeasured:]], 1)
    objective = Objective("queue", "", Latency(stage, 1), 0.9)
    evaluator = Evaluator(store)
    [whole] = evaluated(evaluator, [objective])
    said = f"{unmeasured} of 40 requests of the last hour have no spans of their server, so their {stage} time is not known"
    assert (whole.alert.state, whole.why) == (state, said if state == "unknown" else "")
    split = evaluated(evaluator, [replace(objective, slug="by-model", split_by=("model",))])
    states = {one.alert.scope["model"]: one.alert.state for one in split}
    wanted = {"chat-large": "quiet"} if unmeasured < 40 else {}
    assert states == wanted | ({"chat-small": "unknown"} if unmeasured else {})


def test_what_spans_of_a_server_are_needed_for_is_neither_good_nor_bad_without_them(store: Store) -> None:
    made = rows(random.Random(7), 10, (NOW_S - HOUR_S // 2) * NS, NOW_S * NS)
    slow = [replace(row, status="ok", error_type="", stages=dict.fromkeys(row.stages, 10**9)) for row in made]
    store.writer.insert_requests([replace(row, unmeasured=at > 3) for at, row in enumerate(slow)], 1)
    objectives = [Objective(stage, "", Latency(stage, 1), 0.9) for stage in ("queue", "network", "model")]
    found = evaluated(Evaluator(store), objectives)
    assert {one.alert.objective.slug: one.alert.budget.bad for one in found if one.alert.budget} == {
        "queue": 4, "network": 4, "model": 10,
    }  # fmt: skip
