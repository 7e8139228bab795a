"""Reads demand: what clients wanted of each model, tier and region, and in which steps that was measured."""

import time
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.telemetry.core.demand_rows import COUNTS, DemandRows

from ..client import StorePart
from ..errors import StoreInputError

STEP_S = 300
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

    def measured(self, from_s: int, to_s: int, step_s: int = STEP_S) -> npt.NDArray[np.bool_]:
        """Whether each step of the range was measured, so that a step without requests means none.

        It was not where telemetry received for less than half of it, where its requests are not counted yet, and where it is not over.
        Steps with requests of which telemetry has no record, such as imported ones, were measured; synthetic ones are like them.
        """
        _check(from_s, to_s, step_s)
        count, first = (to_s - from_s) // step_s, from_s // step_s
        parameters: dict[str, object] = {"from_s": from_s, "to_s": to_s, "step_s": step_s}
        built = self._connection.submit_query(
            self._connection.arrow,
            "SELECT toInt64(intDiv(start_s, {step_s:UInt32})) AS at, min(touches) = 0 AS made_up"
            f" FROM ({_BUILDS}) GROUP BY at",
            parameters,
        )
        waiting = self._connection.submit_query(
            self._connection.arrow,
            "SELECT DISTINCT toInt64(intDiv(start_s, {step_s:UInt32})) AS at FROM (SELECT toUInt32(stretch * 300) AS start_s"
            " FROM rollup_touched WHERE stretch >= intDiv({from_s:UInt32}, 300) AND stretch < intDiv({to_s:UInt32}, 300))"
            f" WHERE start_s NOT IN (SELECT start_s FROM ({_BUILDS}))",
            parameters,
        )
        recorded = self._connection.arrow(
            "SELECT toInt64(intDiv(five, {step_s:UInt32})) AS at, sum(least(seconds, 300)) AS seconds FROM"
            " (SELECT start_s AS five, sum(recorded_s) AS seconds FROM recorded"
            " WHERE start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32} GROUP BY five) GROUP BY at",
            parameters,
        )
        seconds = np.zeros(count)
        seconds[recorded["at"].to_numpy() - first] = recorded["seconds"].to_numpy()
        builds = built.result()
        made_up = builds.filter(pc.equal(builds["made_up"], 1))
        imported = (_mask(builds, first, count) & (seconds == 0)) | _mask(made_up, first, count)
        over = np.arange(1, count + 1) * step_s + from_s <= time.time() - SETTLED_S
        measured: npt.NDArray[np.bool_] = ((2 * seconds >= step_s) | imported) & over
        return measured & ~_mask(waiting.result(), first, count)


def _check(from_s: int, to_s: int, step_s: int) -> None:
    if step_s <= 0 or step_s % STEP_S:
        raise StoreInputError(f"step_s {step_s} is not a multiple of {STEP_S}: demand is counted in five minutes")
    if from_s % step_s or to_s % step_s or not 0 <= from_s <= to_s < 2**32:
        raise StoreInputError(f"range {from_s}..{to_s} is not of whole steps of {step_s} s; give from_s <= to_s")


def _mask(table: pa.Table, first: int, count: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(count, bool)
    mask[table["at"].to_numpy() - first] = True
    return mask


def _by_key(table: pa.Table, names: Mapping[int, tuple[str, str, str]]) -> Iterator[DemandRows]:
    """`table` has a key, a start and COUNTS, with equal keys beside each other. A key without a name was written in between."""
    keys, starts, *counts = (column.to_numpy() for column in table.columns)
    edges = np.flatnonzero(np.diff(keys, prepend=keys[:1] + 1)) if len(keys) else np.zeros(0, np.int64)
    for start, end in pairwise([*edges.tolist(), len(keys)]):
        if name := names.get(int(keys[start])):
            values = {column: part[start:end].astype(np.float64) for column, part in zip(COUNTS, counts, strict=True)}
            yield DemandRows(*name, starts[start:end].astype(np.int64), values)
