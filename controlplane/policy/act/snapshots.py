"""Stores the policy snapshot in a cluster, for gateways that mount it there."""

import time
from collections.abc import Callable

import structlog

from controlplane.core.backoff import waits
from controlplane.fleet.clusters.errors import PermanentClusterError, RetryableClusterError, StaleLeaderError
from controlplane.fleet.clusters.port import Cluster
from controlplane.fleet.models import PublishedSnapshot
from controlplane.policy.act.journal import REFUSED_FOR_S
from controlplane.policy.act.stepper import CALL_SECONDS, retry_in_s

log = structlog.get_logger(__name__)

MAX_WAIT_S = REFUSED_FOR_S
"""How long a snapshot waits that the cluster has refused; one that has changed since does not. Other waits are shorter."""


class SnapshotWriter:
    """Of one cluster. `refused` is why the cluster does not take the snapshot; empty where it does, and None where that is not known."""

    def __init__(self, cluster: Cluster, now_ms: Callable[[], int]) -> None:
        self.refused: str | None = None
        self._cluster, self._now_ms = cluster, now_ms
        self._stored: tuple[int, str] | None = None
        self._tried: tuple[int, str] | None = None
        self._from_ms = 0
        self._attempts = 0

    def write(self, generation: int) -> None:
        """Store the document in force, unless this leader has stored it. Nothing in a cluster without gateways or pools. Raises
        StaleLeaderError, DatabaseError.
        """
        seen = self._cluster.seen()
        if not seen.pools and not seen.gateways:
            self.refused = None if seen.seen_ms is None else ""
            return
        etag = PublishedSnapshot.objects.values_list("etag", flat=True).first()
        version = (generation, etag or "")
        if not etag or version == self._stored:
            return
        is_news = bool(self.refused) and version != self._tried
        if waits(self._now_ms(), self._from_ms, MAX_WAIT_S) and not is_news:
            return
        etag, text = PublishedSnapshot.objects.values_list("etag", "text").get()
        self._tried = (generation, etag)
        self._store(text.encode(), generation)

    def _store(self, document: bytes, generation: int) -> None:
        name, began = self._cluster.name, time.monotonic()
        try:
            with CALL_SECONDS.labels("publish").time():
                self._cluster.publish(document, generation=generation)
        except StaleLeaderError:
            raise
        except RetryableClusterError as error:
            wait_s = retry_in_s(error, self._attempts + 1)
            self._wait(wait_s)
            self.refused = None
            log.warning("snapshot.postponed", cluster=name, reason=str(error), retry_s=wait_s)
        except PermanentClusterError as error:
            self._wait(REFUSED_FOR_S)
            self.refused = str(error)
            log.error("snapshot.refused", cluster=name, reason=str(error), retry_s=REFUSED_FOR_S)  # noqa: TRY400  (the reason is all)
        else:
            self._stored, self.refused, self._attempts, self._from_ms = self._tried, "", 0, 0
            log.info("snapshot.stored", cluster=name, bytes=len(document), took_s=time.monotonic() - began)

    def _wait(self, wait_s: float) -> None:
        self._attempts += 1
        self._from_ms = self._now_ms() + int(wait_s * 1_000)
