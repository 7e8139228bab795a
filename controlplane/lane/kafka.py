"""Jobs out of a topic of Kafka, and their results into another, for those who have one (docs/jobs.md).

A record becomes a job, and its offset is committed after that. A record that comes again, because a lane ended in between, is known by
where it lies in the topic. Results leave by the outbox of webhooks, so each is sent once at least.
"""

import asyncio
import ssl
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordTooLargeError
from django.db import DatabaseError

from controlplane.core.seldom import Seldom
from controlplane.incidents.notify.delivery.core.retry import Answer
from controlplane.lane.backlog import Estimates, TooLateError
from controlplane.lane.callbacks import Read
from controlplane.lane.config import LaneConfig
from controlplane.lane.core.jobs import MAX_URL_CHARS, TO_TOPIC, new_job
from controlplane.lane.core.lines import RefusedError
from controlplane.lane.create_job import Caller, make
from controlplane.lane.http import forms
from controlplane.lane.models import Batch
from controlplane.lane.objects.port import Objects
from controlplane.lane.store import jobs
from controlplane.lane.store.callbacks import POLICY
from controlplane.lane.store.files import NotThereError
from controlplane.lane.store.idempotency import OtherBodyError, digest
from controlplane.lane.store.jobs import Standing
from controlplane.lane.store.keys import tenant_of
from controlplane.lane.store.limits import FullError
from controlplane.lane.threads import in_thread
from inference.contract.snapshot import key_digest

log = structlog.get_logger(__name__)

GROUP = "weir-lane"
POLL_MS, RECORDS = 1_000, 100
RETRY_S = 2.0
_SAID_TOO_LARGE = "The result is larger than the topic takes: read it at GET /v1/jobs/{}."

Headers = Sequence[tuple[str, bytes]]


class NoKeyError(Exception):
    """Retryable, once it is mended: the key that jobs of the topic are made with is none, disabled or expired."""


class Source(NamedTuple):
    """Where a record lies, and its key, which its result has too."""

    partition: int
    offset: int
    key: bytes | None

    @property
    def address(self) -> str:
        """For the outbox. Raises RefusedError."""
        key = "" if self.key is None else f"/{urlsafe_b64encode(self.key).decode()}"
        text = f"{TO_TOPIC}{self.partition}/{self.offset}{key}"
        if len(text) > MAX_URL_CHARS:
            raise RefusedError("The record's key is too long.", "key")
        return text

    @classmethod
    def of(cls, address: str) -> "Source":
        partition, offset, *key = address.removeprefix(TO_TOPIC).split("/")
        return cls(int(partition), int(offset), urlsafe_b64decode(key[0]) if key else None)


def _connection(config: LaneConfig) -> dict[str, Any]:
    protocol = config.lane_kafka_protocol
    context = ssl.create_default_context() if protocol.endswith("SSL") else None
    given: dict[str, Any] = {
        "bootstrap_servers": config.lane_kafka,
        "security_protocol": protocol,
        "ssl_context": context,
    }
    if protocol.startswith("SASL"):
        given |= {
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": config.lane_kafka_user,
            "sasl_plain_password": config.lane_kafka_password,
        }
    return given


class Results:
    """Writes to the topic of results, from one event loop."""

    def __init__(self, config: LaneConfig, objects: Objects) -> None:
        self._config, self._objects = config, objects
        self._producer: AIOKafkaProducer | None = None
        self._lock = asyncio.Lock()

    async def deliver(self, job: Batch, read: Read) -> Answer:
        """Send how it has ended: an attempt of the outbox."""
        try:
            async with asyncio.timeout(POLICY.timeout_s):
                standing: Standing = await read(lambda: jobs.read(job.tenant, job.name, job.kind, self._objects))
                source, shown = Source.of(job.callback_url), forms.job(standing)
                try:
                    await self.send(source, shown)
                except (MessageSizeTooLargeError, RecordTooLargeError):
                    error = {"code": "result_too_large", "message": _SAID_TOO_LARGE.format(job.name)}
                    await self.send(source, shown | {"result": None, "error": error})
        except NotThereError:
            return Answer(404)  # it was deleted meanwhile, and its row in the outbox with it
        except (KafkaError, DatabaseError, OSError) as error:
            log.warning("lane.result_not_sent", job=job.name, reason=str(error))
            return Answer(None, "the topic of results cannot be written")
        return Answer(200)

    async def send(self, source: Source, body: Mapping[str, Any]) -> None:
        """Raises KafkaError."""
        where = f"{self._config.lane_kafka_jobs}/{source.partition}/{source.offset}"
        headers = [("weir-source", where.encode())]
        if name := body.get("id"):
            headers.append(("weir-job", str(name).encode()))
        producer = await self._started()
        topic = self._config.lane_kafka_results
        await producer.send_and_wait(topic, msgspec.json.encode(body), key=source.key, headers=headers)

    async def _started(self) -> AIOKafkaProducer:
        async with self._lock:
            if self._producer is None:
                producer = AIOKafkaProducer(acks="all", enable_idempotence=True, **_connection(self._config))
                try:
                    await producer.start()
                except BaseException:
                    await producer.stop()
                    raise
                self._producer = producer
            return self._producer

    async def close(self) -> None:
        if self._producer is not None:
            with suppress(KafkaError):
                await self._producer.stop()


class Ingress:
    """Makes jobs of records. `wake` is called when there are some."""

    def __init__(self, config: LaneConfig, objects: Objects, wake: Callable[[], None], estimates: Estimates) -> None:
        self._config, self._objects, self._wake, self._estimates = config, objects, wake, estimates
        self._key_sha256 = key_digest(config.lane_kafka_key)
        self._results = Results(config, objects)
        self._said, self._seldom = "", Seldom()

    async def run(self, stopping: asyncio.Event) -> None:
        try:
            while not stopping.is_set():
                try:
                    await self._consume(stopping)
                except (KafkaError, OSError) as error:
                    self._say(f"the brokers cannot be used: {error}")
                except Exception as error:
                    if self._seldom.fails(error):
                        log.exception("lane.kafka_failed")
                await _pause(stopping)
        finally:
            await self._results.close()

    def _say(self, problem: str) -> None:
        if problem != self._said:
            log.warning("lane.kafka_failed", reason=problem) if problem else log.info("lane.kafka_recovered")
        self._said = problem

    async def _consume(self, stopping: asyncio.Event) -> None:
        """Raises KafkaError, OSError."""
        consumer = AIOKafkaConsumer(
            self._config.lane_kafka_jobs,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **_connection(self._config),
        )
        try:
            await consumer.start()
            while not stopping.is_set():
                given = await consumer.getmany(timeout_ms=POLL_MS, max_records=RECORDS)
                for partition, records in given.items():
                    taken = await self._taken(records)
                    if taken:
                        await consumer.commit({partition: records[taken - 1].offset + 1})
                        self._wake()
                    if taken < len(records):
                        consumer.seek(partition, records[taken].offset)
                        await _pause(stopping)
        finally:
            await consumer.stop()

    async def _taken(self, records: Sequence[ConsumerRecord]) -> int:
        """How many from the first on are jobs now, or refused for good. Raises KafkaError."""
        for number, record in enumerate(records):
            source = Source(record.partition, record.offset, record.key)
            try:
                await in_thread(partial(self._take, record, source))
            except (RefusedError, TooLateError, OtherBodyError) as error:
                await self._results.send(source, _refused(error))
            except (FullError, NoKeyError, DatabaseError, OSError) as error:
                self._say(f"records wait: {error}")
                return number
        self._say("")
        return len(records)

    def _take(self, record: ConsumerRecord, source: Source) -> None:
        """Raises RefusedError, TooLateError, OtherBodyError, FullError, NoKeyError, DatabaseError, OSError."""
        tenant = tenant_of(self._key_sha256)
        if tenant is None:
            raise NoKeyError("WEIR_LANE_KAFKA_KEY is no key of the gateway, or is disabled or expired")
        body = record.value or b""
        wanted = new_job(body)
        if wanted.callback_url:
            raise RefusedError("Results go to the topic of results: leave `callback` out.", "callback")
        wanted = wanted._replace(callback_url=source.address)
        where = f"{record.topic}/{record.partition}/{record.offset}/{record.timestamp}"
        who = Caller(tenant, self._key_sha256, f"kafka:{digest(where.encode())}")
        make(who, wanted, body, self._objects, self._estimates)


def _refused(error: RefusedError | TooLateError | OtherBodyError) -> dict[str, Any]:
    param = error.param if isinstance(error, RefusedError) else None
    said = {"code": error.code, "message": str(error), "param": param}
    return {"id": None, "object": "job", "status": "failed", "metadata": None, "result": None, "error": said}


async def _pause(stopping: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(RETRY_S):
            await stopping.wait()
