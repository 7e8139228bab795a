"""The page of the cache and its API: the same figures as the ledger and the gateways have."""

import math
import re
import time
from datetime import UTC, datetime

from django.test import Client

from controlplane.core.formatting import PAGE
from controlplane.fleet.models import LLMModel, Observation, Price
from controlplane.fleet.observe.core.ready import CACHE_FAULTS
from controlplane.planning.models import MeasuredPool
from controlplane.telemetry.core.query_types import FROM_CACHE
from controlplane.telemetry.store import Store
from tests.support.stored_pool import stored_pool
from tests.support.telemetry.samples import S, row
from tests.support.telemetry.stored_metrics import write
from tests.support.web.html import page_of, words_of
from tests.support.web.served import Filled


def test_counts_and_tokens_are_those_of_the_ledger(reader: Client, caller: Client, served: Filled) -> None:
    rows = [row for row in served.rows if row.model == "chat-small"]
    hits = [row for row in rows if row.cache_outcome in FROM_CACHE]
    answered = [row for row in hits if row.status == "ok"]
    answer = caller.get("/api/v1/cache", {**served.range, "model": "chat-small"}).json()
    assert sum(sum(it["requests"].values()) for it in answer["saved"]) == len(rows)
    assert sum(it["requests"].get("hit", 0) for it in answer["saved"]) == sum(
        row.cache_outcome == "hit" for row in rows
    )
    tokens = sum(it["output_tokens"]["value"] or 0 for it in answer["saved"])
    assert tokens == sum(row.output_tokens or 0 for row in answered if row.prompt_tokens is not None)
    page = page_of(reader, "/cache", **served.range, model="chat-small")
    assert f"<strong>{len(rows)}</strong> requests needed" in page
    assert 'id="figure"' in page


def test_gpu_time_is_not_known_until_the_pool_was_measured(reader: Client, served: Filled) -> None:
    pool = stored_pool("chat-small-local", "chat-small")
    question = {**served.range, "model": "chat-small", "pool": "chat-small-local"}
    assert 'GPU time <strong class="warn">not known' in page_of(reader, "/cache", **question)
    capacity = {"requests_per_s": 0.8, "source": "ledger", "gpus_per_replica": 4, "lower_bound": True}
    MeasuredPool.objects.create(pool=pool, measured_at=datetime.now(UTC), reason="", capacity=capacity)
    hits = sum(
        row.cache_outcome in FROM_CACHE and row.status == "ok" for row in served.of(model="chat-small", pool=pool.name)
    )
    assert f"≤ {PAGE.ms(1000 * hits * 4 / 0.8)}</strong> GPU time" in page_of(reader, "/cache", **question)


def test_money_is_not_known_until_there_is_a_price(reader: Client, served: Filled) -> None:
    pool = stored_pool("chat-small-local", "chat-small")
    question = {**served.range, "model": "chat-small", "pool": "chat-small-local"}
    assert re.search(r"money <strong class=\"warn\">not known", page_of(reader, "/cache", **question))
    Price.objects.create(variant=pool.variant, usd_per_1k_prompt_tokens=0.25, usd_per_1k_output_tokens=1)
    assert re.search(r"<strong>[0-9.]+\u202fUSD</strong> money\.", page_of(reader, "/cache", **question))
    whole = page_of(reader, "/cache", **served.range)
    assert re.search(r"<strong>[0-9.]+\u202fUSD</strong> money <span class=\"muted\">\(not known of [0-9]+\)", whole)


def test_a_hit_says_what_its_answer_would_have_cost_and_a_miss_what_was_cached_at_its_server(
    reader: Client, annexed: Store
) -> None:
    pool, at = stored_pool("small-eu", "small"), time.time_ns() - 3600 * S
    hit = row(1, entry_start_ns=at, cache_outcome="hit", cost_usd=0.0)
    annexed.writer.insert_requests([hit, row(2, entry_start_ns=at, cached_tokens=64)], 1)
    said = words_of(page_of(reader, f"/traces/{hit.trace_id}"))
    assert "cost nothing" in said and "without the cache" not in said  # nobody has entered a price
    Price.objects.create(variant=pool.variant, usd_per_1k_prompt_tokens=0.5, usd_per_1k_output_tokens=1)
    said = words_of(page_of(reader, f"/traces/{hit.trace_id}"))
    assert "without the cache 0.070 USD, by the price that holds now" in said
    said = words_of(page_of(reader, f"/traces/{row(2).trace_id}"))
    assert "tokens in 100, 64 of them in its server's cache" in said and "without the cache" not in said


def test_evidence_refusals_and_sizes_are_as_the_gateways_say(reader: Client, caller: Client, annexed: Store) -> None:
    now_ns = int(datetime.now(UTC).timestamp()) * 10**9
    times = [now_ns - (10 - n) * 10**9 for n in range(10)]
    for instance, labels in (("one", 212.0), ("two", 211.0)):
        route = {
            "job": "gateway",
            "instance": instance,
            "model": "chat",
            "route": "0a0b",
            "words": "other",
            "judge": "arbiter",
        }
        for name, value in (
            ("labels", labels),
            ("labels_wanted", 677.0),
            ("wrong", 3.0),
            ("marks", 2.0),
            ("certified", 0.0),
            ("broke", 0.0),
            ("changes", 1.0),
        ):
            write(annexed, f"weir_gateway_semantic_{name}", [(time, value) for time in times], "gauge", **route)
        counts = [(time, float(3 * n)) for n, time in enumerate(times)]
        looked = {"job": "gateway", "instance": instance, "model": "chat", "result": "refused_number"}
        write(annexed, "weir_gateway_semantic_lookups_total", counts, "counter", **looked)
        kept = {"job": "gateway", "instance": instance, "model": "chat", "rule": "p/r"}
        counts = [(time, 500.0 * n) for n, time in enumerate(times)]
        write(annexed, "weir_gateway_cache_written_bytes_total", counts, "counter", **kept)
    embedder = LLMModel.objects.create(name="letters")
    LLMModel.objects.create(name="chat", semantic_mode="shadow", semantic_embedder=embedder)
    question = {"from": "now-5m", "to": "now"}
    page = page_of(reader, "/cache", **question)
    assert "Compare their answers, and serve nothing. Vectors by <strong>letters</strong>" in " ".join(page.split())
    assert "not enough evidence: 211 of 677" in page
    assert "they differ in: number <strong>54</strong>" in page
    assert "9.00\u202fkB" in page
    assert caller.get("/api/v1/cache", question).json()["written"] == [
        {"model": "chat", "rule": "p/r", "size_bytes": 9000}
    ]
    assert "How much Redis holds is not known now" in page
    [route] = caller.get("/api/v1/cache", question).json()["similar"]
    assert (route["labels"], route["threshold"], route["changes"], route["words"]) == (211, None, 1, "other")
    assert (route["judge"], route["wrong"], route["marks"]) == ("arbiter", 3, 2)
    assert "where <strong>arbiter</strong> agrees" in page
    assert "<strong>3</strong>, of which people marked 2" in " ".join(page.split())
    assert route["examples"] == []
    of = {"job": "gateway", "model": "chat", "route": "0a0b", "words": "other", "judge": "arbiter"}
    for request in ("ab" * 16, "no/trace"):
        write(annexed, "weir_gateway_semantic_wrong_request", [(times[-1], 1.0)], **of, request=request)
    write(annexed, "weir_gateway_semantic_broke", [(times[-1], 1.0)], **of, instance="three")
    assert f'href="/traces/{"ab" * 16}"' in page_of(reader, "/cache", **question)
    [route] = caller.get("/api/v1/cache", question).json()["similar"]
    assert (route["broke"], route["examples"]) == (True, ["ab" * 16])
    for name in ("labels", "labels_wanted", "wrong"):
        odd = {**of, "route": "odd", "instance": "four"}
        write(annexed, f"weir_gateway_semantic_{name}", [(times[-1], math.inf)], "gauge", **odd)
    assert len(caller.get("/api/v1/cache", question).json()["similar"]) == 1, "what is no number says nothing"
    Observation.objects.create(
        component="redis", kind="cache", state="up", observed_at=datetime.now(UTC), figures={"memory_bytes": 3.2e6}
    )
    assert "<strong>3.20\u202fMB</strong>" in page_of(reader, "/cache", **question)


def test_what_the_gateway_says_of_the_cache_is_shown_while_it_is_known(reader: Client, served: Filled) -> None:
    assert "What the gateway says of the cache is not known now" in page_of(reader, "/cache", **served.range)
    now, error = datetime.now(UTC), f"no replica is up in pool a; {CACHE_FAULTS[1].text}"
    Observation.objects.create(component="gateway", kind="gateway", state="degraded", observed_at=now, error=error)
    page = page_of(reader, "/cache", **served.range)
    assert "The gateway says now: it keeps no new answers: Redis takes no writes" in page
    assert "no replica is up" not in page and "not known now.</p>" not in page
    Observation.objects.update(error="", state="up")
    assert "The gateway says now" not in page_of(reader, "/cache", **served.range)
    Observation.objects.update(error="no replica is up in pool a; no replica…", state="degraded")
    assert "What the gateway says of the cache is not known now" in page_of(reader, "/cache", **served.range)


def test_without_a_request_the_page_says_so(reader: Client, served: Filled) -> None:
    page = page_of(reader, "/cache", **served.range, model="nobody")
    assert "No request with these filters was recorded in this range" in page
    assert "How much was written in the range is not known" in page
