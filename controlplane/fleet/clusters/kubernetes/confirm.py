"""Whether a server still answers, and whether what it says is of the same history: a quiet watch says neither."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from controlplane.fleet.clusters.errors import ClusterError, ThrottledError
from controlplane.fleet.clusters.kubernetes.client import Api
from controlplane.fleet.clusters.kubernetes.objects import ListMetadata
from controlplane.fleet.clusters.kubernetes.watch import Watched

log = structlog.get_logger(__name__)

CONFIRM_EVERY_S = 2.0


class _Page(msgspec.Struct):
    metadata: ListMetadata


class Confirmation(threading.Thread):
    """Lists a single object every CONFIRM_EVERY_S, of the first kind of `watched` that the credentials allow and the server has: that is
    read through to the store, so it fails where events would not come either.
    """

    def __init__(self, api: Api, watched: Sequence[Watched[Any]], name: str) -> None:
        super().__init__(name=f"confirm {name}", daemon=True)
        self._api, self._watched = api, watched
        self._stopped = threading.Event()
        self.problem = ""
        self.revision = 0
        """Of the server's history, as it was last confirmed; 0 while that is not known."""

    def stop(self) -> None:
        """Ends within a call's timeout."""
        self._stopped.set()

    def run(self) -> None:
        wait_s = CONFIRM_EVERY_S
        while not self._stopped.wait(wait_s):
            began, wait_s = time.monotonic(), CONFIRM_EVERY_S
            path = next((each.path for each in self._watched if not each.refused), "")
            if not path:
                continue
            try:
                page = self._api.request("GET", path, _Page, query={"limit": "1"})
            except ClusterError as error:
                if not self.problem:
                    log.warning("cluster.not_confirmed", path=path, reason=str(error))
                self.problem = str(error)
                if isinstance(error, ThrottledError):
                    wait_s = max(wait_s, error.retry_after_s)
            else:
                self.problem = ""
                self._note(page.metadata.resourceVersion, path)
                for watched in self._watched:
                    watched.confirm(began)

    def _note(self, version: str, path: str) -> None:
        """A store that was restored from a backup has another history: watches would go on where that has not come yet, and say nothing."""
        revision = int(version) if version.isascii() and version.isdecimal() else self.revision
        if revision < self.revision:
            log.warning("cluster.set_back", path=path, revision=revision, before=self.revision)
            self._api.moves_on()
        self.revision = revision
