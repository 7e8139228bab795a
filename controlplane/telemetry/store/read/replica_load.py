"""Reads what replicas carried, and how long they took to start, from the ledger and metrics."""

from collections.abc import Mapping

import numpy as np

from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.replica_load import ModelLoad, PoolLoad, ReplicaStart

from ..client import StorePart
from ..errors import StoreInputError
from .sli_sql import bad
from .where import ANSWERED, OWN, column, where

_COUNTS = (
    "requests",
    "replicas",
    "judged",
    "good",
    "input_tokens",
    "output_tokens",
    "model_ns",
    "prefill_ns",
    "decode_ns",
)
MAX_START_NS = 3_600 * 10**9
MAX_STARTS = 500
"""The newest creations that are looked at."""
CREATED = "kube_pod_created"
STARTED = "process_start_time_seconds"


class ReplicaLoadReader(StorePart):
    """Raises StoreUnavailableError or StoreError."""

    def load(self, window: Window, cut: Cut, scope: Mapping[str, str], step_s: int = 300) -> list[PoolLoad]:
        """Every pool's load by step, by pool and time.

        `cut` with one threshold (or availability) says which of the requests in `scope` are good. Answers of the cache, and of
        other requests in flight, reached no replica and are not counted.
        """
        if step_s < 1:
            raise StoreInputError(f"step_s={step_s} is below 1: use 300")
        if len(cut.thresholds) != (cut.measure != "availability"):
            raise StoreInputError(f"cut has {len(cut.thresholds)} thresholds: give 1, or none for availability")
        condition = where(window)
        condition.add(f"pool != '' AND replica != '' AND {OWN}", step_ns=step_s * 10**9)
        parameters = condition.parameters
        scoped = []
        for dimension, value in scope.items():
            scoped.append(f"{column(dimension)} = {{scope_{dimension}:String}}")
            parameters[f"scope_{dimension}"] = value
        table = self._connection.arrow(
            "SELECT toString(pool) AS pool, toInt64(intDiv(entry_start_ns, {step_ns:UInt64}) * {step_ns:UInt64}) AS start_ns,"
            " count() AS requests, uniqExact(replica) AS replicas,"
            " countIf(scoped AND bad IS NOT NULL) AS judged, countIf(scoped AND bad = 0) AS good,"
            " sum(ifNull(prompt_tokens, 0)) AS input_tokens, sum(ifNull(output_tokens, 0)) AS output_tokens,"
            " sum(stage_model) AS model_ns, sum(prefill_ns) AS prefill_ns, sum(decode_ns) AS decode_ns"
            f" FROM (SELECT *, {bad(cut, parameters)} AS bad, {' AND '.join(scoped) or 'true'} AS scoped"
            f" FROM requests FINAL WHERE {condition.sql})"
            " GROUP BY pool, start_ns ORDER BY pool, start_ns",
            parameters,
        )
        pools = table["pool"].to_numpy().astype(object)
        columns = {name: table[name].to_numpy().astype(np.int64) for name in ("start_ns", *_COUNTS)}
        return [
            PoolLoad(str(pool), **{name: values[pools == pool] for name, values in columns.items()})
            for pool in dict.fromkeys(pools)
        ]

    def starts(self, window: Window) -> list[ReplicaStart]:
        """Replicas created in the window, by time, each with its first good answer within an hour.

        A creation is that of the pod of the replica's name (`kube_pod_created` of kube-state-metrics), else the start of its process
        (`process_start_time_seconds`, which Prometheus' client libraries export). Without either nothing is known of starts.
        """
        created = self._connection.rows(
            "SELECT replica, created_ns FROM ("
            " SELECT if(metric = {created:String}, labels['pod'], labels['replica']) AS replica,"
            " toInt64(value * 1e9) AS created_ns, metric = {created:String} AS of_pod,"
            " max(of_pod) OVER (PARTITION BY replica) AS known"
            " FROM (SELECT DISTINCT series, value FROM samples WHERE time_ns >= {from_ns:Int64} AND time_ns < {to_ns:Int64}"
            "  AND series IN (SELECT series FROM series WHERE metric IN ({created:String}, {started:String}))) AS s"
            " INNER JOIN (SELECT DISTINCT metric, series, labels FROM series WHERE metric IN ({created:String}, {started:String})) AS n"
            " ON s.series = n.series"
            ") WHERE replica != '' AND of_pod = known AND created_ns >= {from_ns:Int64} AND created_ns < {to_ns:Int64}"
            " GROUP BY replica, created_ns ORDER BY created_ns DESC, replica DESC LIMIT {most:UInt32}",
            {
                "created": CREATED,
                "started": STARTED,
                "from_ns": window.from_ns,
                "to_ns": window.to_ns,
                "most": MAX_STARTS,
            },
        )
        return [self._first_answer(replica, created_ns, window.to_ns) for replica, created_ns in reversed(created)]

    def model_loads(self, window: Window) -> list[ModelLoad]:
        """Loads that began in the window, by time."""
        names = ", ".join(f"toString({name})" for name in ("adapter", "service", "model", "pool", "replica"))
        rows = self._connection.rows(
            f"SELECT start_ns, duration_ns, {names} FROM model_loads FINAL"
            " WHERE start_ns >= {from_ns:UInt64} AND start_ns < {to_ns:UInt64} ORDER BY start_ns DESC LIMIT {most:UInt32}",
            {"from_ns": window.from_ns, "to_ns": window.to_ns, "most": MAX_STARTS},
        )
        return [ModelLoad(*row) for row in reversed(rows)]

    def _first_answer(self, replica: str, created_ns: int, to_ns: int) -> ReplicaStart:
        condition = where(Window(created_ns, min(created_ns + MAX_START_NS, max(to_ns, created_ns))))
        condition.add(f"replica = {{replica:String}} AND {OWN} AND {ANSWERED}", replica=replica)
        [(count, pool, answered_ns)] = self._connection.rows(
            f"SELECT count(), toString(argMin(pool, end_ns)), min(end_ns) FROM requests FINAL WHERE {condition.sql}",
            condition.parameters,
        )
        return ReplicaStart(pool, replica, created_ns, int(answered_ns) if count else None)
