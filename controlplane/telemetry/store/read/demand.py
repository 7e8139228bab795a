"""Reads demand: what clients wanted of each model, tier and region, and in which steps that is known."""

import time
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from controlplane.telemetry.core.demand_rows import COUNTS, F64, STEPS_PER_DAY, DemandRows, Known, served
from controlplane.telemetry.core.recorded import RECORDED_STEP_S

from ..client import StorePart
from ..errors import StoreInputError

STEP_S = RECORDED_STEP_S
"""Demand is counted in steps of five minutes. Others are multiples of it."""
SETTLED_S = 120
"""A step is not measured before so long after its end: late spans arrive until then."""

_KEY = "cityHash64(model, tier, region)"
"""Rows name their key by a number: three texts in each of a million rows would take longer than the rest."""
_BUILDS = (
    "SELECT start_s, build, touches FROM rollup_builds FINAL"
    " WHERE kind = 'demand' AND start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32}"
)
"""The current builds. There is one of each five minutes with requests, once these are counted."""
_CURRENT = f"start_s >= {{from_s:UInt32}} AND start_s < {{to_s:UInt32}} AND build IN (SELECT build FROM ({_BUILDS}))"


class DemandReader(StorePart):
    """Raises StoreUnavailableError or StoreError; StoreInputError for steps that do not fit."""

    def steps(
        self, from_s: int, to_s: int, step_s: int = STEP_S, key: tuple[str, str, str] | None = None
    ) -> list[DemandRows]:
        """By model, tier and region, or of one such key: the steps with requests that start in the range."""
        _check(from_s, to_s, step_s)
        parameters: dict[str, object] = {"from_s": from_s, "to_s": to_s, "step_s": step_s}
        condition = _CURRENT
        if key is not None:
            condition += " AND model = {model:String} AND tier = {tier:String} AND region = {region:String}"
            parameters |= dict(zip(("model", "tier", "region"), key, strict=True))
        names = self._connection.submit_query(
            self._connection.rows,
            f"SELECT DISTINCT {_KEY}, toString(model), toString(tier), toString(region) FROM demand WHERE {condition}",
            parameters,
        )
        columns = ", ".join(COUNTS)
        rows = f"SELECT {_KEY} AS key, model, tier, region, start_s, {columns} FROM demand WHERE {condition}"
        if step_s > STEP_S:
            sums = ", ".join(f"sum({name}) AS {name}" for name in COUNTS)
            rows = (
                f"SELECT key, model, tier, region, toUInt32(intDiv(start_s, {{step_s:UInt32}}) * {{step_s:UInt32}}) AS step, {sums}"
                f" FROM ({rows}) GROUP BY key, model, tier, region, step"
            )
            columns = f"step, {columns}"
        else:
            columns = f"start_s, {columns}"
        table = self._connection.arrow(f"SELECT key, {columns} FROM ({rows}) ORDER BY model, tier, region", parameters)
        return list(_by_key(table, {key: (model, tier, region) for key, model, tier, region in names.result()}))

    def recorded(self, from_s: int, to_s: int) -> dict[int, float]:
        """For how many seconds telemetry received, by the start of each five minutes that lies in the range or reaches into it."""
        rows = self._connection.rows(
            "SELECT start_s, sum(recorded_s) FROM recorded WHERE start_s > {from_s:Int64} AND start_s < {to_s:Int64} GROUP BY start_s",
            {"from_s": from_s - STEP_S, "to_s": to_s},
        )
        return {int(start_s): float(seconds) for start_s, seconds in rows}

    def known(self, from_s: int, to_s: int, step_s: int = STEP_S) -> Known:
        """For which part of each step demand is known, so that a step without requests means none.

        It is not where telemetry received for less than half of a five minutes, where its requests are not counted yet, where it is not
        over, and where no gateway was there or no client could reach one. Steps with requests of which telemetry has no record, such as
        imported ones, were measured; synthetic ones are like them.
        """
        _check(from_s, to_s, step_s)
        before_s = from_s - STEPS_PER_DAY * STEP_S
        count = (to_s - before_s) // STEP_S
        # A range may begin within a day of the epoch.
        parameters: dict[str, object] = {"from_s": max(0, before_s), "to_s": to_s, "before_s": before_s}
        at = f"intDiv(toInt64(start_s) - {{before_s:Int64}}, {STEP_S}) AS at"
        built, waiting, looked, arrived = (
            self._connection.submit_query(self._connection.arrow, query, parameters)
            for query in (
                f"SELECT {at}, touches = 0 AS made_up FROM ({_BUILDS})",
                f"SELECT DISTINCT {at}, 1 AS waits FROM (SELECT toUInt32(stretch * 300) AS start_s FROM rollup_touched"
                " WHERE stretch >= intDiv({from_s:UInt32}, 300) AND stretch < intDiv({to_s:UInt32}, 300))"
                f" WHERE start_s NOT IN (SELECT start_s FROM ({_BUILDS}))",
                f"SELECT {at}, max(found) AS found FROM (SELECT start_s, sum(served) / sum(looks) AS found FROM gateway_looks"
                " WHERE start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32} GROUP BY start_s, instance) GROUP BY at",
                f"SELECT {at}, toString(region) AS origin, sum(requests + limited) AS arrived FROM demand WHERE {_CURRENT}"
                " GROUP BY at, origin ORDER BY origin",
            )
        )
        recorded = self._connection.arrow(
            f"SELECT {at}, sum(recorded_s) AS seconds FROM recorded"
            " WHERE start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32} GROUP BY at",
            parameters,
        )
        seconds = _dense(recorded, "seconds", count, 0.0)
        made_up = _dense(built.result(), "made_up", count, np.nan)
        imported = (np.isfinite(made_up) & (seconds == 0)) | (made_up == 1)
        over = before_s + STEP_S * np.arange(1, count + 1) <= time.time() - SETTLED_S
        measured = (
            ((2 * seconds >= STEP_S) | imported) & over & np.isnan(_dense(waiting.result(), "waits", count, np.nan))
        )
        requests = {name: _dense(part, "arrived", count, 0.0) for name, part in _by_region(arrived.result())}
        looks = np.where(imported, np.nan, _dense(looked.result(), "found", count, np.nan))
        share = np.where(measured, served(looks, sum(requests.values(), np.zeros(count))), 0.0)
        return Known(share, requests, step_s // STEP_S)


def _check(from_s: int, to_s: int, step_s: int) -> None:
    if step_s <= 0 or step_s % STEP_S:
        raise StoreInputError(f"step_s {step_s} is not a multiple of {STEP_S}: demand is counted in five minutes")
    if from_s % step_s or to_s % step_s or not 0 <= from_s <= to_s < 2**32:
        raise StoreInputError(f"range {from_s}..{to_s} is not of whole steps of {step_s} s; give from_s <= to_s")


def _dense(table: pa.Table, name: str, count: int, default: float) -> F64:
    """A column by step, of a table that has `at`; `default` in steps that have no row."""
    values = np.full(count, default)
    values[table["at"].to_numpy()] = table[name].to_numpy()
    return values


def _by_region(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """`table` is ordered by `origin`."""
    names = np.array(table["origin"].to_pylist(), object)
    edges = np.flatnonzero(names[1:] != names[:-1]) + 1
    for start, end in pairwise([0, *edges.tolist(), len(names)] if len(names) else []):
        yield names[start], table.slice(start, end - start)


def _by_key(table: pa.Table, names: Mapping[int, tuple[str, str, str]]) -> Iterator[DemandRows]:
    """`table` has a key, a start and COUNTS, with equal keys beside each other. A key without a name was written in between."""
    keys, starts, *counts = (column.to_numpy() for column in table.columns)
    edges = np.flatnonzero(np.diff(keys, prepend=keys[:1] + 1)) if len(keys) else np.zeros(0, np.int64)
    for start, end in pairwise([*edges.tolist(), len(keys)]):
        if name := names.get(int(keys[start])):
            values = {column: part[start:end].astype(np.float64) for column, part in zip(COUNTS, counts, strict=True)}
            yield DemandRows(*name, starts[start:end].astype(np.int64), values)
