"""The semantic cache from end to end, on a real Redis: what it serves, to whom, and that nothing of it fails a request."""

import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference.contract.snapshot_parts import SemanticRule
from inference.core import otlp
from inference.core.backend_errors import FailedError
from inference.core.semantic.evidence import Label
from tests.support.gateway.process import Gateway
from tests.support.gateway.similar import NAMES, OTHER_KEY, RULE, bed, snapshot
from tests.support.telemetry.otlp_payloads import rows_in, spans_in
from tests.support.wait import eventually_async


@pytest.mark.parametrize(
    ("passes", "server"),
    [(False, "redis_url"), (True, "redis_url"), (False, "search_url")],
    ids=["question", "as it came", "RediSearch"],
)
async def test_once_labels_have_shown_that_it_may_a_similar_request_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, passes: bool, server: str
) -> None:
    async with bed(tmp_path, monkeypatch, request.getfixturevalue(server), passes=passes) as it:
        await it.says("up", "up")
        await it.teach(1)
        wanted = next(iter(it.semantic.labels.routes.values())).evidence.labels_wanted
        assert it.thresholds == [None]
        await it.teach(wanted, NAMES[1:])
        assert it.thresholds[0] is not None
        inferences, outcomes = len(it.chat.questions), []
        for name in NAMES[:20]:  # a part of them is generated, to see whether it is still right
            outcome, text = await it.ask(f"Please tell me what is {name.title()}'s capital?")
            assert text == f"{name.upper()}-CITY"
            outcomes.append(outcome.partition(";")[0])
        served = outcomes.count("semantic")
        assert served > 0, (it.semantic.counts, it.thresholds, outcomes)
        assert len(it.chat.questions) == inferences + len(outcomes) - served


async def test_a_client_says_that_an_answer_was_not_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        served = ("", "", "")

        async def a_hit() -> bool:
            nonlocal served
            for name in NAMES[:10]:
                text = (
                    f"{secrets.choice(('hi', 'hello', 'hey'))} please tell me what is {name.title()}'s capital, thanks"
                )
                raw = await it.client.chat.completions.with_raw_response.create(
                    model="m", temperature=0, messages=[{"role": "user", "content": text}]
                )
                if raw.headers["x-weir-cache"].startswith("semantic; entry="):
                    served = (text, raw.headers["x-request-id"], raw.headers["x-weir-cache"])
                    return True
                await it.learnt()
            return False

        await eventually_async(a_hit)
        text, request_id, _ = served
        (route,) = it.semantic.labels.routes.values()
        labels = route.evidence.labels
        assert await it.mark({"request_id": request_id}, OTHER_KEY) == 404
        assert await it.mark({"request": request_id}) == 400
        assert await it.mark({"request_id": request_id}) == 200
        assert await it.mark({"request_id": request_id}) == 404
        await it.learnt()
        assert (route.evidence.labels, route.evidence.wrong[0]) == (labels + 1, 1)
        entry = served[2].partition("entry=")[2].partition(";")[0]
        for _ in range(10):
            raw = await it.client.chat.completions.with_raw_response.create(
                model="m", temperature=0, messages=[{"role": "user", "content": text}]
            )
            assert entry not in raw.headers["x-weir-cache"]
            await it.learnt()


@pytest.mark.parametrize(
    ("cache", "across_tenants", "shared"),
    [({}, True, False), ({"scope": "all"}, False, False), ({"scope": "all"}, True, True)],
)
async def test_tenants_share_similar_answers_only_where_both_rules_say_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    redis_url: str,
    cache: dict[str, Any],
    across_tenants: bool,
    shared: bool,
) -> None:
    rule = msgspec.structs.replace(RULE, across_tenants=across_tenants)
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule, **cache)) as it:
        await it.teach(45)
        asked = [await it.ask(f"please tell me what is {name.title()}'s capital?", OTHER_KEY) for name in NAMES[:30]]
        assert any(outcome.startswith("semantic") for outcome, _ in asked) is shared


async def test_in_shadow_nothing_is_served_and_evidence_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    rule = msgspec.structs.replace(RULE, mode="shadow")
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule)) as it:
        await it.teach(45)
        assert it.thresholds[0] is not None
        assert {(await it.ask(f"tell me what is {name.title()}'s capital"))[0] for name in NAMES[:10]} == {"miss"}


async def test_answers_that_differ_keep_it_in_shadow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, answer=lambda _: secrets.token_hex(4)) as it:
        await it.teach(40)
        assert it.thresholds == [None]
        assert it.semantic.counts["m", "label_wrong"] > 30


async def test_the_requests_that_were_wrong_are_named_while_it_is_said_that_answers_became_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(1)
        (route,) = it.semantic.labels.routes.values()
        for at_ms, named in ((0, False), (int(1000 * time.time()), True)):
            route.take(Label(0.9, wrong=True), request := secrets.token_hex(16), 0)
            route.broke_ms = at_ms
            assert (f'request="{request}"' in (await it._page("metrics"))[1]) is named


async def test_what_the_verifier_refuses_is_no_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, answer=lambda text: text) as it:
        await it.ask("how do I enable dark mode in the editor")
        await it.ask("how do I disable dark mode in the editor")
        await it.ask("how do I thaw dark mode in the editor")
        assert it.semantic.counts["m", "refused_opposite"] >= 1
        assert it.semantic.counts["m", "label_wrong"] == it.semantic.counts["m", "label_right"] == 0


async def test_an_embedder_that_gives_other_vectors_under_its_name_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        it.embed.seed = 7
        outcomes = [(await it.ask(f"tell me what is the capital of {name.title()} please"))[0] for name in NAMES[:40]]
        assert it.semantic.embedders.changed == 1
        assert "miss" in outcomes[32:]
        assert it.thresholds[-1] is None


@pytest.mark.parametrize(
    "error", [FailedError("it broke", "internal"), RuntimeError("a defect")], ids=["server", "defect"]
)
async def test_an_embedder_that_fails_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, error: Exception
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        it.embed.error = error
        outcomes = {(await it.ask(f"please tell me what is {name.title()}'s capital?"))[0] for name in NAMES[:5]}
        assert outcomes == {"miss"}


async def test_off_costs_no_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(SemanticRule())) as it:
        await it.teach(1)
        assert (it.embed.questions, dict(it.semantic.counts)) == ([], {})
        assert await it.ready() == "off"


@pytest.mark.parametrize(
    ("rule", "with_redis", "said"),
    [
        (RULE, True, "up"),
        (RULE, False, "off: there is no Redis"),
        (msgspec.structs.replace(RULE, embedder="lost"), True, "off: no embedder is known for m"),
        (
            msgspec.structs.replace(RULE, judge="lost"),
            True,
            "up: no judge is known for m, so other words are misses there",
        ),
    ],
)
async def test_readiness_says_whether_similar_requests_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str, rule: SemanticRule, with_redis: bool, said: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url if with_redis else "", snapshot(rule)) as it:

        async def answered() -> bool:
            assert await it.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "balia"}])
            return await it.ready() == said

        await eventually_async(answered)


async def test_hits_and_embeddings_have_rows_whose_stages_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    async with bed(tmp_path, monkeypatch, redis_url) as it:
        await it.teach(45)
        it.encoded.clear()
        asked = [await it.ask(f"please tell me what is {name.title()}'s capital?") for name in NAMES[:20]]
        body = otlp.request(it.encoded, "weir.gateway", ())
    rows = rows_in([body])
    hits = [row for row in rows if row.cache_outcome == "semantic"]
    embedded = [row for row in rows if row.model == "e"]
    assert len(hits) == sum(outcome.startswith("semantic") for outcome, _ in asked) > 0
    assert len(embedded) == len(asked) == len(rows) - len(embedded)
    assert {(row.status, row.operation, row.tenant, row.http_status) for row in embedded} == {
        ("ok", "embeddings", "alice", 200)
    }
    assert all(row.stages["cache"] > 0 for row in hits)
    for row in rows:
        assert sum(row.stages.values()) + row.unattributed_ns == row.e2e_ns
    names = {span.name for span in spans_in(body)}
    assert {"cache.lookup", "cache.embed", "cache.search", "cache.verify", "embeddings e"} <= names


async def test_wrong_answers_in_other_words_hold_up_none_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setattr(
        "inference.request.semantic.lookup.random.random", lambda: 0.99
    )  # no hit is generated to compare
    rule = msgspec.structs.replace(RULE, other_words=True)
    async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule)) as it:
        await it.teach(1)
        same, other = sorted(it.semantic.labels.routes.values(), key=lambda route: route.words, reverse=True)
        assert (same.words, other.words) == ("same", "other")
        for number in range(2 * same.evidence.labels_wanted):
            it.semantic.labels.add(same.name, Label(0.99, wrong=False), f"{number}")
            it.semantic.labels.add(other.name, Label(0.99, wrong=number % 2 == 0), f"{number}")
        await it.learnt()
        assert same.evidence.threshold is not None and other.evidence.threshold is None
        text = f"what is {NAMES[0].title()}'s capital"
        outcomes = [(await it.ask(f"{before} {text}"))[0] for before in ("Please tell me", "Hello,", "Hi,") * 4]
        assert any(outcome.startswith("semantic") for outcome in outcomes)
        outcomes = [(await it.ask(f"{text} {word}"))[0] for word in ("nowadays", "exactly", "formally") * 4]
        assert {outcome.partition(";")[0] for outcome in outcomes} <= {"miss", "hit"}
        assert it.semantic.counts["m", "label_right"] > 0  # each was compared


async def test_texts_of_now_and_of_oneself_are_looked_up_where_the_rule_allows_it_with_evidence_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    routes, refused = [], []
    for timely in (False, True):
        rule = msgspec.structs.replace(RULE, timely=timely)
        async with bed(tmp_path, monkeypatch, redis_url, snapshot(rule)) as it:
            await it.teach(1)
            await it.ask(f"what is {NAMES[0].title()}'s capital today")
            routes.append(set(it.semantic.labels.routes))
            refused.append(it.semantic.counts["m", "not_eligible_time"])
    assert refused == [1, 0]
    assert routes[0] and routes[1] and not routes[0] & routes[1]


@pytest.mark.parametrize("body", [b'{"request_id":"\xff"}', b'{"x":' + b"[" * 50_000], ids=["no UTF-8", "deep"])
def test_a_mark_that_cannot_be_read_is_refused(gateway: Gateway, body: bytes) -> None:
    assert gateway.ask("POST", "/v1/cache/not-same", body)[0] == 400
