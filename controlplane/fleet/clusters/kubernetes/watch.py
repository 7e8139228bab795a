"""Keeps all objects of one kind up to date: lists them once, then watches what changes, and resumes where a watch ended.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

import msgspec
import structlog

from controlplane.fleet.clusters.errors import ClusterError, ForbiddenError, ThrottledError, UnreachableError
from controlplane.fleet.clusters.kubernetes.client import (
    Api,
    ExpiredError,
    Lines,
    MissingError,
    UnauthorizedError,
    error_of,
)
from controlplane.fleet.clusters.kubernetes.objects import ListMetadata, Metadata

log = structlog.get_logger(__name__)
K = TypeVar("K")

WATCH_S = 15
"""How long a watch lasts before it is resumed, s. A connection that died without a word is noticed as late as this."""
SILENT_S = WATCH_S + 3.0
PAGE = 500
FIRST_RETRY_S, LAST_RETRY_S, REFUSED_RETRY_S = 0.2, 5.0, 30.0


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Named(msgspec.Struct):
    metadata: Metadata


class Watched(Generic[K]):
    """The objects of one kind in one namespace, by name, in a thread of its own.

    `optional`: what the credentials do not allow or the server does not have counts as empty. `fields` selects them, as the
    API's `fieldSelector` does, and `keeps` those that are not forgotten at once. `key` names the field of the metadata that is
    theirs alone.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        kind: type[K],
        *,
        optional: bool = False,
        fields: str = "",
        keeps: Callable[[K], bool] = lambda _: True,
        key: Literal["name", "uid"] = "name",
    ) -> None:
        self._api = api
        self.path = path
        self.optional = optional
        self._selected = {"fieldSelector": fields} if fields else {}
        self._keeps = keeps
        self._key = attrgetter(f"metadata.{key}")
        self._items_type: Any = msgspec.defstruct(
            f"List{kind.__name__}",
            [("metadata", ListMetadata), ("items", list[kind] | None, None)],  # type: ignore[valid-type]
        )
        self._kind = kind
        self._version = ""
        self._moves = 0  # of the API when it was listed
        self._lines: Lines | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self.objects: Mapping[str, K] = {}
        """Replaced whole with every change, so that readers need no lock."""
        self.changes = 0
        self.confirmed_at: float | None = None
        """Monotonic: when the server last confirmed that this is all."""
        self.connected = False
        self.refused = False
        """The credentials do not allow it, or the server has no such kind."""
        self.problem = ""

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        self._stopped.set()
        lines = self._lines
        if lines is not None:
            lines.cut()

    def confirm(self, at: float) -> None:
        """The server answered something else at `at`: what is watched is as new as that."""
        with self._lock:
            if self.connected and not self._moved():
                self.confirmed_at = at

    def _moved(self) -> bool:
        """Whether another server is asked than the one that was listed."""
        return self._moves != self._api.moves

    def _run(self) -> None:
        wait_s = FIRST_RETRY_S
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                began = time.monotonic()
                self._watch()
                wait_s, pause_s = FIRST_RETRY_S, 0.0 if time.monotonic() - began > 1 else FIRST_RETRY_S
            except ExpiredError:
                self._version, pause_s = "", wait_s
            except (ForbiddenError, MissingError) as error:
                # Credentials that ended say nothing of what they allow.
                self._disconnected(error, refused=not isinstance(error, UnauthorizedError))
                self._version, pause_s = "", REFUSED_RETRY_S if self.optional and self.refused else LAST_RETRY_S
            except ClusterError as error:
                wait_s = FIRST_RETRY_S if self.connected else wait_s
                self._disconnected(error)
                pause_s = max(wait_s, error.retry_after_s) if isinstance(error, ThrottledError) else wait_s
            except Exception as error:  # a thread that ended would leave its objects as they are, for ever
                log.exception("cluster.watch_failed", path=self.path)
                self._disconnected(error)
                self._version, pause_s = "", LAST_RETRY_S
            self._stopped.wait(pause_s * random.uniform(0.8, 1.2))  # noqa: S311  (so that kinds do not come back at once)
            wait_s = min(wait_s * 2, LAST_RETRY_S) if pause_s else wait_s
        self.connected = False

    def _disconnected(self, error: Exception, *, refused: bool = False) -> None:
        with self._lock:
            # What was refused stays so until it is answered: without an answer no more is known of it.
            self.refused = refused or (self.optional and self.refused)
            self.connected, self.problem = False, str(error)
            if self.optional and self.refused and self.objects:
                self.objects, self.changes = {}, self.changes + 1

    def _list(self) -> None:
        items: dict[str, K] = {}
        after, began, moves = "", time.monotonic(), self._api.moves
        while True:
            query = {"limit": str(PAGE)} | self._selected | ({"continue": after} if after else {})
            listed = self._api.request("GET", self.path, self._items_type, query=query)
            items |= {self._key(item): item for item in listed.items or () if self._keeps(item)}
            after = listed.metadata.next
            if not after:
                break
        self._moves = moves
        self._replace(items, listed.metadata.resourceVersion, began)
        log.debug("cluster.listed", path=self.path, objects=len(items))

    def _watch(self) -> None:
        began = time.monotonic()
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_S),
        } | self._selected
        with self._api.lines(self.path, query, SILENT_S) as lines:
            self._lines = lines
            if self._moved():
                raise ExpiredError(f"WATCH {self.path}: another server answers than before.")
            if self._stopped.is_set():  # `stop` had nothing to cut yet
                return
            with self._lock:
                # An answer that has begun says nothing of events before it: it confirms once the next one, or a call, does.
                self.connected, self.refused, self.problem = True, False, ""
                self.confirmed_at = max(began, self.confirmed_at or began)
            for line in lines:
                try:
                    self._apply(msgspec.json.decode(line, type=_Event))
                except msgspec.DecodeError as error:
                    self._version = ""  # list anew: what it said is not known
                    raise UnreachableError(f"WATCH {self.path}: an event cannot be read ({error}).") from error
                if self._stopped.is_set() or self._moved():
                    break
        self._lines = None

    def _apply(self, event: _Event) -> None:
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object)
            raise error_of(f"WATCH {self.path}", int(status.get("code", 500)), {}, bytes(event.object))
        if event.type == "BOOKMARK":
            metadata = msgspec.json.decode(event.object, type=_Named).metadata
            self._replace(self.objects, metadata.resourceVersion, time.monotonic())
            return
        item: Any = msgspec.json.decode(event.object, type=self._kind)
        key, objects = self._key(item), self.objects
        if event.type != "DELETED" and self._keeps(item):
            objects = {**objects, key: item}
        elif key in objects:
            objects = {name: other for name, other in objects.items() if name != key}
        self._replace(objects, item.metadata.resourceVersion, time.monotonic())

    def _replace(self, objects: Mapping[str, K], version: str, at: float) -> None:
        with self._lock:
            if objects is not self.objects:
                self.objects = objects
                self.changes += 1
            self._version = version
            self.confirmed_at = at
