"""Records become jobs, and results records, over Kafka's protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

from controlplane.fleet.models import GatewayKey, Tenant, Tier
from controlplane.lane import kafka
from controlplane.lane.backlog import Estimates, TooLateError
from controlplane.lane.config import LaneConfig
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.kafka import Ingress, NoKeyError, Source
from controlplane.lane.models import Batch, Callback, CallbackSecret
from controlplane.lane.objects.folder import Folder
from controlplane.lane.store import batches, callbacks
from inference.contract.snapshot import key_digest
from tests.support.gateway.process import KEY
from tests.support.lane.brokers import brokers
from tests.support.lane.model_server import EchoServer
from tests.support.lane.process import a_fleet, a_line, give_key, start_stack
from tests.support.start import Start
from tests.support.wait import eventually_async

TENANT = "alice"


def a_record(text: str, **members: Any) -> bytes:
    job = {"endpoint": "/v1/chat/completions", "body": a_line("1", text)["body"], "metadata": {"row": text}}
    return json.dumps(job | members).encode()


@asynccontextmanager
async def topic(servers: str) -> AsyncIterator[tuple[AIOKafkaProducer, AIOKafkaConsumer]]:
    """What writes records, and what reads results."""
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    consumer = AIOKafkaConsumer("weir.results", bootstrap_servers=servers, auto_offset_reset="earliest")
    await producer.start()
    await consumer.start()
    try:
        yield producer, consumer
    finally:
        await consumer.stop()
        await producer.stop()


@pytest.mark.processes
async def test_records_become_jobs_and_their_results_records_also_when_a_lane_is_killed(
    start: Start, tmp_path: Path
) -> None:
    model = EchoServer().start()
    try:
        with brokers() as servers:
            settings = {"lane_kafka": servers, "lane_kafka_protocol": "PLAINTEXT", "lane_kafka_key": KEY}
            async with topic(servers) as (producer, consumer):
                sent = [
                    (await producer.send_and_wait("weir.jobs", value, key=key)).offset
                    for key, value in ((b"a", a_record("1")), (b"b", b"{}"), (b"c", a_record("2")))
                ]
                assert len(sent) == 3
                stack = start_stack(start, tmp_path, a_fleet(model.url), lane_lease_s="2", **settings)
                give_key(dict(stack.command.env))  # until it is there, records wait
                results = {record.key: record for record in [await anext(aiter(consumer)) for _ in range(3)]}
                good, wrong = json.loads(results[b"a"].value), json.loads(results[b"b"].value)
                assert good["result"]["body"]["choices"][0]["message"]["content"] == "echo 1"
                assert (good["status"], good["metadata"]) == ("completed", {"row": "1"})
                assert dict(results[b"a"].headers)["weir-job"].decode() == good["id"]
                assert (wrong["id"], wrong["status"]) == (None, "failed") and "`endpoint`" in wrong["error"]["message"]
                assert dict(results[b"b"].headers)["weir-source"].startswith(b"weir.jobs/")

                model.hold()
                await producer.send_and_wait("weir.jobs", a_record("3"), key=b"d")
                await model_has(model)
                stack.lane.kill()
                model.let_go()
                stack.lane.start()
                last = json.loads((await anext(aiter(consumer))).value)
                assert last["result"]["body"]["choices"][0]["message"]["content"] == "echo 3"
    finally:
        model.stop()


async def model_has(model: EchoServer) -> None:
    await eventually_async(lambda: model.running == 1)


@pytest.fixture
def ingress(home: Path) -> Ingress:
    settings = {"lane_kafka": "none:9092", "lane_kafka_key": KEY, "lane_kafka_protocol": "PLAINTEXT"}
    return Ingress(LaneConfig(**settings), Folder(home / "lane"), lambda: None, Estimates())


def take(ingress: Ingress, value: bytes, key: bytes | None = b"k", offset: int = 7) -> None:
    ingress._take(record_of(value, key, offset), Source(1, offset, key))


def record_of(value: bytes, key: bytes | None, offset: int) -> ConsumerRecord:
    return ConsumerRecord("weir.jobs", 1, offset, 1_234, 0, key, value, None, 0, len(value), ())


@pytest.mark.django_db(transaction=True)
def test_a_record_that_cannot_be_done_in_time_is_answered_so_and_its_offset_passes(
    ingress: Ingress, tenant: GatewayKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Source, Mapping[str, Any]]] = []

    async def send(source: Source, body: Mapping[str, Any]) -> None:
        sent.append((source, body))

    def late(model: str, lines: int, window_s: float) -> None:
        raise TooLateError(lines, 7_200.0, 9_000.0, 0.0)

    monkeypatch.setattr(ingress._results, "send", send)
    monkeypatch.setattr(ingress._estimates, "admit", late)
    records = [
        record_of(a_record("1", completion_window=window), b"k", at) for at, window in enumerate(("2h", "soonest"))
    ]
    assert asyncio.run(ingress._taken(records)) == 2
    [(source, body)] = sent
    assert (source.offset, body["status"], body["error"]["code"]) == (0, "failed", "would_end_too_late")
    assert Batch.objects.get().completion_window == "soonest"


async def test_what_nobody_foresaw_is_logged_and_the_intake_goes_on(
    ingress: Ingress, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended without a word, and no record was taken until the lane was restarted."""
    stopping, tries = asyncio.Event(), 0

    async def consume(stopping: asyncio.Event) -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            stopping.set()
        raise RuntimeError("a defect")

    monkeypatch.setattr(kafka, "RETRY_S", 0.0)
    monkeypatch.setattr(ingress, "_consume", consume)
    await ingress.run(stopping)
    assert tries == 3
    assert sum("lane.kafka_failed" in record.message for record in caplog.records) == 1


@pytest.fixture
def tenant(db: None) -> GatewayKey:
    tier, _ = Tier.objects.get_or_create(name="standard")
    return GatewayKey.objects.adopt(Tenant.objects.create(name=TENANT, tier=tier), "topic", KEY)[0]


def test_a_record_that_comes_again_is_the_same_job(ingress: Ingress, tenant: GatewayKey) -> None:
    for offset in (7, 7, 8):
        take(ingress, a_record("1"), offset=offset)
    first, second = Batch.objects.order_by("pk")
    assert (first.tenant, first.key_sha256) == (TENANT, key_digest(KEY))
    assert [Source.of(job.callback_url) for job in (first, second)] == [Source(1, 7, b"k"), Source(1, 8, b"k")]
    assert not CallbackSecret.objects.exists()


def test_its_result_waits_for_a_lane_with_brokers(ingress: Ingress, tenant: GatewayKey) -> None:
    take(ingress, a_record("1"), key=None)
    job = Batch.objects.get()
    batches.cancel(job.tenant, job.name, job.kind)
    assert Callback.objects.count() == 1
    assert callbacks.claim(callbacks.POLICY, 10, {}) == []
    [row] = callbacks.claim(callbacks.POLICY, 10, {}, to_topic=True)
    assert Source.of(row.job.callback_url) == Source(1, 7, None)


def test_what_a_record_may_not_have_is_refused_and_without_a_key_it_waits(ingress: Ingress, tenant: GatewayKey) -> None:
    with pytest.raises(RefusedError, match="leave `callback` out"):
        take(ingress, a_record("1", callback={"url": "https://example.com"}))
    with pytest.raises(RefusedError, match="key is too long"):
        take(ingress, a_record("1"), key=b"k" * 400)
    for value in (
        b"[",
        b"\xef\xbb\xbf{}",
        b'{"x":"\xff"}',
        b'{"x":' + b"[" * 100_000,
        a_record("1", metadata={"a": "\0"}),
    ):
        with pytest.raises(RefusedError):
            take(ingress, value)
    GatewayKey.objects.update(enabled=False)
    with pytest.raises(NoKeyError):
        take(ingress, a_record("1"))
    assert not Batch.objects.exists()
