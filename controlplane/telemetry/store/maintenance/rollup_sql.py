"""The statements that fill rollups and demand.

Each fills [{from_s}, {to_s}) in steps of {step_s}, and gives each of them a build of its own, from {build} on.
"""

from ..read.histograms import BAND_SHIFT, BINS
from ..read.metrics.rollups import GAUGES
from ..read.where import ANSWERED, CLIENT_ERROR, CLIENT_LIMIT, OWN
from ..write.arrow_columns import PARTS

SUB_BINS = 128
DIMENSIONS = ("model", "variant", "pool", "tier", "region", "cache_outcome", "status", "ttft_definition")

_SETTINGS = " SETTINGS do_not_merge_across_partitions_select_final = 1, max_partitions_per_insert_block = 0, max_execution_time = 50"
_STRETCH = "{build:UInt64} + intDiv(toUInt32(%s) - {from_s:UInt32}, {step_s:UInt32})"


def bin_of(value: str) -> str:
    """The bin of an expression of ns: HdrHistogram's layout (hdrhistogram.org) with 128 bins to an octave, each at most 0.8 % wide.

    log2 may round across a power of two; the bin is the same either way.
    """
    exponent = f"greatest(toInt32(floor(log2(bitOr({value}, 1)))) - 7, 0)"
    return f"toUInt16(bitShiftRight({value}, {exponent}) + {SUB_BINS} * {exponent})"


_OF_REQUESTS = {
    "requests": "count()",
    "unmeasured": "countIf(answered AND unmeasured)",
    "input_tokens": "sum(ifNull(prompt_tokens, 0))",
    "output_tokens": "sum(ifNull(output_tokens, 0))",
    "cost_usd": "sum(ifNull(cost_usd, 0))",
    "newest_ns": "max(end_ns)",
}
_PARTS = {column: f"sum({column})" for column in PARTS.values()}
_HISTOGRAMS = ("e2e", "ttft", "part")
_BAND_COLUMNS = tuple(f"band_{part}" for part in PARTS)
COLUMNS = (
    "build", "step_s", "start_s", *DIMENSIONS, *_OF_REQUESTS,
    *(f"{name}_{array}" for name in _HISTOGRAMS for array in ("bins", "counts")), "band_bins", *_BAND_COLUMNS,
)  # fmt: skip
_INTO = f"INSERT INTO rollups ({', '.join(COLUMNS)}) SELECT {_STRETCH % 'start'}, {{step_s:UInt32}}, start, {', '.join(DIMENSIONS)}, "


def _sum(name: str, value: str) -> str:
    return f"{'max' if name == 'newest_ns' else 'sum'}({value})"


def _rounded(value: str) -> str:
    """Whole µs with their nine highest bits, so within 0.2 %: they need half the space."""
    bits = f"greatest(toInt32(floor(log2(bitOr({value}, 1)))) - 8, 0)"
    return f"bitShiftLeft(bitShiftRight({value} + bitShiftRight(bitShiftLeft(toUInt64(1), {bits}), 1), {bits}), {bits})"


def _counted(name: str) -> str:
    """A histogram's sorted array as the arrays of its different values and of how many there are of each."""
    values, most = f"all_{name}", "toUInt32(4294967295)" if name == "part" else "toUInt16(65535)"
    following = f"arrayShiftLeft({values}, 1, {most})"
    ends = f"arrayFilter((place, value, next) -> value != next, arrayEnumerate({values}), {values}, {following})"
    return f"arrayCompact({values}), arrayPopFront(arrayDifference(arrayPushFront({ends}, 0)))"


_REQUESTS = (
    f" FROM (SELECT *, end_ns, {ANSWERED} AS answered, {bin_of('e2e_ns')} AS e2e_bin,"
    " toUInt32(intDiv(entry_start_ns, {step_ns:UInt64}) * {step_s:UInt32}) AS start"
    " FROM requests FINAL WHERE entry_start_ns >= {from_ns:UInt64} AND entry_start_ns < {to_ns:UInt64})"
)
_KEYS = f"start, {', '.join(DIMENSIONS)}"
_BY_BAND = (  # first by band, because sums by band are then plain ones
    f"SELECT {_KEYS}, if(answered, toInt32(bitShiftRight(e2e_bin, {BAND_SHIFT})), -1) AS band, "
    + ", ".join(f"{value} AS sum_{name}" for name, value in (_OF_REQUESTS | _PARTS).items())
    + ", groupArrayIf(e2e_bin, answered) AS e2e,"
    f" groupArrayIf({bin_of('assumeNotNull(ttft_ns)')}, answered AND ttft_ns IS NOT NULL) AS ttft,"
    f" groupArrayArrayIf(arrayMap((value, part) -> toUInt32({bin_of('value')} + {BINS} * part), [{', '.join(PARTS.values())}],"
    f" range({len(PARTS)})), answered) AS part" + _REQUESTS + f" GROUP BY {_KEYS}, band"
)
_SORTED = (
    f"SELECT {_KEYS}, "
    + ", ".join(f"{_sum(name, f'sum_{name}')} AS whole_{name}" for name in _OF_REQUESTS)
    + ", "
    + ", ".join(f"arraySort(groupArrayArray({name})) AS all_{name}" for name in _HISTOGRAMS)
    + f", arraySort(groupArrayIf((band, {', '.join(f'sum_{column}' for column in PARTS.values())}), band >= 0)) AS bands"
    + f" FROM ({_BY_BAND}) GROUP BY {_KEYS}"
)
ROLLUPS_OF_REQUESTS = (
    _INTO
    + ", ".join(f"whole_{name}" for name in _OF_REQUESTS)
    + ", "
    + ", ".join(_counted(name) for name in _HISTOGRAMS)
    + ", arrayMap(band -> band.1, bands), "
    + ", ".join(
        f"arrayMap(us -> {_rounded('us')}, arrayMap(band -> intDiv(band.{n} + 500, 1000), bands))"
        for n in range(2, len(PARTS) + 2)
    )
    + f" FROM ({_SORTED})"
    + _SETTINGS
)
"""Of requests. `step_ns` is `step_s` in ns."""

_MERGED_BANDS = f"sumMapWithOverflow(band_bins, {', '.join(_BAND_COLUMNS)})"
ROLLUPS_OF_ROLLUPS = (
    _INTO
    + ", ".join(_sum(name, name) for name in _OF_REQUESTS)
    + ", "
    + ", ".join(f"sumMapWithOverflow({name}_bins, {name}_counts).{n}" for name in _HISTOGRAMS for n in (1, 2))
    + ", "
    + f"{_MERGED_BANDS}.1, "
    + ", ".join(f"arrayMap(us -> {_rounded('us')}, {_MERGED_BANDS}.{n})" for n in range(2, len(PARTS) + 2))
    + " FROM (SELECT *, toUInt32(intDiv(start_s, {step_s:UInt32}) * {step_s:UInt32}) AS start FROM rollups"
    " WHERE step_s = {finer_s:UInt32} AND start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32}"
    " AND build IN (SELECT build FROM rollup_builds FINAL WHERE kind = 'rollups' AND step_s = {finer_s:UInt32}"
    " AND start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32} AND touches > 0))" + f" GROUP BY {_KEYS}" + _SETTINGS
)
"""Of the current builds with steps of `finer_s`, without synthetic ones."""

SLICE_DIMENSIONS = ("model", "variant", "pool", "tier", "region", "cache_outcome")
_OF_SLICE = ", ".join(f"('{name}', toString({name}))" for name in SLICE_DIMENSIONS)
_SLICED = (
    *(f"{name}_{array}" for name in _HISTOGRAMS for array in ("bins", "counts")), "band_bins", *_BAND_COLUMNS,
)  # fmt: skip
SLICES_OF_ROLLUPS = (
    "INSERT INTO rollup_slices (build, step_s, start_s, dimension, value, status, ttft_definition, requests, unmeasured, newest_ns,"
    f" {', '.join(_SLICED)}) SELECT build, step_s, start_s, slice.1, slice.2, status, ttft_definition, sum(requests), sum(unmeasured),"
    " max(newest_ns), "
    + ", ".join(f"sumMapWithOverflow({name}_bins, {name}_counts).{n}" for name in _HISTOGRAMS for n in (1, 2))
    + ", "
    + ", ".join(f"{_MERGED_BANDS}.{n}" for n in range(1, len(PARTS) + 2))
    + f" FROM (SELECT *, arrayJoin([('', ''), {_OF_SLICE}]) AS slice FROM rollups"
    " WHERE step_s = {step_s:UInt32} AND start_s >= {from_s:UInt32} AND start_s < {to_s:UInt32}"
    " AND build >= {build:UInt64} AND build < {build:UInt64} + {builds:UInt32})"
    " GROUP BY build, step_s, start_s, slice, status, ttft_definition" + _SETTINGS
)
"""Of the rows that one of the statements above wrote, as builds of the same numbers."""

_LIMITED = f"{CLIENT_LIMIT} AND NOT can_wait"
_WANTED = f"NOT ({CLIENT_LIMIT} OR {CLIENT_ERROR} OR can_wait)"
"""A request that could have been served: no replica more would have answered one that is over its limit, or wrong. Lines of the lane come
when there is room for them: they are no demand of clients.
"""
_REPEATED = (
    "least(toInt64(countIf(wanted AND (repeated OR idempotency_key > 0)) - uniqExactIf(idempotency_key, wanted AND idempotency_key > 0)),"
    " toInt64(countIf(wanted AND status != 'ok')))"
)
"""Requests that were asked for before. What is asked for again follows a failure: without one it is more demand."""
_FROM = "if(adapter = 'weir', caller_region, region)"
"""A gateway knows where its requests come from. Of servers alone only the pool is known."""
_DEMAND = {
    "requests": f"toInt64(countIf(wanted)) - {_REPEATED} AS asked",
    "shed": f"greatest(toInt64(countIf(wanted AND status = 'rejected')) - {_REPEATED}, 0)",
    "limited": f"countIf({_LIMITED})",
    "from_cache": f"least(toInt64(countIf(wanted AND NOT {OWN})), asked)",
    "input_tokens": "sumIf(ifNull(prompt_tokens, 0), wanted)",
    "input_known": "countIf(wanted AND isNotNull(prompt_tokens))",
    # How long the answer would have been that failed or that nobody waited for is not known.
    "output_tokens": "sumIf(ifNull(output_tokens, 0), status = 'ok')",
    "output_known": "countIf(status = 'ok' AND isNotNull(output_tokens))",
}
DEMAND_OF_REQUESTS = (
    f"INSERT INTO demand (build, start_s, model, tier, region, {', '.join(_DEMAND)})"
    f" SELECT {_STRETCH % 'start'}, start, model, tier, origin, "
    + ", ".join(_DEMAND.values())
    + f" FROM (SELECT *, {_WANTED} AS wanted, {_FROM} AS origin,"
    " toUInt32(intDiv(entry_start_ns, {step_ns:UInt64}) * {step_s:UInt32}) AS start FROM requests FINAL"
    " WHERE entry_start_ns >= {from_ns:UInt64} AND entry_start_ns < {to_ns:UInt64} AND model != '')"
    f" GROUP BY start, model, tier, origin HAVING countIf(wanted) + countIf({_LIMITED}) > 0" + _SETTINGS
)

METRICS_OF_SAMPLES = (
    "INSERT INTO metric_rollups (build, series, start_s, metric, labels, samples, mean, most, last)"
    f" SELECT {_STRETCH % 'start'}, series, start, any(metric), any(labels),"
    " count(), avg(value), max(value), argMax(value, time_ns)"
    " FROM (SELECT series, time_ns, value, toUInt32(intDiv(time_ns, {step_ns:UInt64}) * {step_s:UInt32}) AS start FROM samples FINAL"
    " WHERE time_ns >= toInt64({from_ns:UInt64}) AND time_ns < toInt64({to_ns:UInt64}) AND NOT isNaN(value)"
    f" AND series IN (SELECT series FROM series WHERE metric IN {GAUGES})) AS sampled"
    f" INNER JOIN (SELECT series, metric, labels FROM series FINAL WHERE metric IN {GAUGES}) AS named USING series"
    " GROUP BY series, start" + _SETTINGS
)
