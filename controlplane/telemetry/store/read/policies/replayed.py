"""Counts recorded requests by what a policy's rules and steps look at."""

from collections.abc import Sequence

from controlplane.telemetry.core.objective_counts import Cut
from controlplane.telemetry.core.query_types import Window
from controlplane.telemetry.core.replayed_rows import BINS_PER_DECADE, RecordedRequest, RuledHour, RuledRow, TierMinute
from controlplane.telemetry.ledger.row import RATE_LIMITED

from ...client import StorePart
from ..sli_sql import code
from ..where import ANSWERED, CLIENT_LIMIT, FAILED, OWN, Where, where
from .canary import FIRST_POOL

_CLASS = (
    "toString(tier), if(tenant IN {tenants:Array(String)}, toString(tenant), ''), toString(region),"
    " toUInt32(arrayCount(bound -> bound <= ifNull(prompt_tokens, 0), {bounds:Array(UInt32)}))"
)


_RECORDED = (
    "intDiv(entry_start_ns, 1000000), intDiv(e2e_ns, 1000000), intDiv(stage_tokenizer, 1000000), intDiv(stage_queue, 1000000),"
    " if(length(attempt_pool) > 1, 0, intDiv(stage_model, 1000000)),"
    f" toString(model), {FIRST_POOL}, toString(caller_region), toString(tier), toString(tenant), prompt_tokens, output_tokens,"
    f" toString(cache_outcome), toString(status), {CLIENT_LIMIT}, can_wait"
)


class ReplayedReader(StorePart):
    """Raises StoreUnavailableError or StoreError. But for `newest`, requests over a limit are not counted: no rule sees them."""

    def newest(
        self, window: Window, models: Sequence[str], cuts: Sequence[Cut], most: int
    ) -> tuple[list[RecordedRequest], int]:
        """The newest requests for these models by time, and how many there are in the window."""
        condition = where(window)
        condition.add("model IN {models:Array(String)}", models=list(models))
        codes = ", ".join(f"toInt32({code(cut, index, condition.parameters)})" for index, cut in enumerate(cuts))
        source = f"FROM requests FINAL WHERE {condition.sql}"
        [(count,)] = self._connection.rows(f"SELECT count() {source}", condition.parameters)
        rows = self._connection.rows(
            f"SELECT {_RECORDED}, [{codes}] {source} ORDER BY entry_start_ns DESC, trace_id, request_id LIMIT {int(most)}",
            condition.parameters,
        )
        return [RecordedRequest._make((*row[:-1], tuple(row[-1]))) for row in reversed(rows)], int(count)

    def rows(
        self, window: Window, model: str, bounds: Sequence[int], tenants: Sequence[str], caps: Sequence[int]
    ) -> list[RuledRow]:
        """The requests of a model by all that a rule looks at, and by pool and E2E.

        A prompt is in band 0 below `bounds[0]` tokens, in band 1 from there, and so on; one whose length is not known is in band 0.
        """
        condition = _condition(window, model, bounds, tenants)
        answered = f"{ANSWERED} AND {OWN} AND toString(pool) = arm"
        e2e_bin = f"if({answered}, toInt32(floor(log10(greatest(e2e_ns, 1)) * {BINS_PER_DECADE})), -1)"
        longer = _longer(condition, caps)
        rows = self._connection.rows(
            f"SELECT {_CLASS}, {FIRST_POOL} AS arm, {e2e_bin} AS bin, count(), countIf({OWN}), countIf({FAILED}){longer}"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY 1, 2, 3, 4, arm, bin",
            condition.parameters,
        )
        return [
            RuledRow(tier, tenant, region, band, pool, at if at >= 0 else None, requests, own, failed, tuple(over))
            for tier, tenant, region, band, pool, at, requests, own, failed, *over in rows
        ]

    def hours(self, window: Window, model: str, bounds: Sequence[int], tenants: Sequence[str]) -> list[RuledHour]:
        """The requests of a model that the cache did not answer, by all that a rule looks at, and by hour."""
        condition = _condition(window, model, bounds, tenants)
        condition.add(OWN)
        rows = self._connection.rows(
            f"SELECT {_CLASS}, toUInt32(intDiv(entry_start_ns, 3600000000000)) AS hour, count() FROM requests FINAL"
            f" WHERE {condition.sql} GROUP BY 1, 2, 3, 4, hour",
            condition.parameters,
        )
        return [RuledHour(*row) for row in rows]

    def tier_minutes(self, window: Window, model: str, tiers: Sequence[str], caps: Sequence[int]) -> list[TierMinute]:
        """The requests of a model's tiers by minute."""
        condition = _condition(window, model)
        longer = _longer(condition, caps)
        condition.add("tier IN {tiers:Array(String)}", tiers=list(tiers))
        rows = self._connection.rows(
            f"SELECT toString(tier), toUInt32(intDiv(entry_start_ns, 60000000000)) AS minute, count(), countIf({OWN}){longer}"
            f" FROM requests FINAL WHERE {condition.sql} GROUP BY 1, minute ORDER BY minute",
            condition.parameters,
        )
        return [TierMinute(tier, minute, requests, own, tuple(over)) for tier, minute, requests, own, *over in rows]


def _condition(window: Window, model: str, bounds: Sequence[int] = (), tenants: Sequence[str] = ()) -> Where:
    condition = where(window, {"model": (model,)})
    condition.add(
        "error_type != {rate_limited:String}",
        rate_limited=RATE_LIMITED,
        bounds=list(bounds),
        tenants=list(tenants),
    )
    return condition


def _longer(condition: Where, caps: Sequence[int]) -> str:
    """A column for each cap, after others: the requests whose answers a server made longer than that."""
    condition.parameters |= {f"cap_{number}": cap for number, cap in enumerate(caps)}
    over = (f", countIf({OWN} AND ifNull(output_tokens, 0) > {{cap_{number}:UInt32}})" for number in range(len(caps)))
    return "".join(over)
