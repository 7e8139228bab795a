"""Shares a limit of GPUs or money among pools that want more."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from forecasting.capacity.assumptions import PlanInputs
from forecasting.capacity.months import hours_by_month
from forecasting.capacity.plan import BINDINGS, Binding, PoolPlan
from forecasting.series import F64, I64

HALVINGS = 50


def limited(plans: list[PoolPlan], inputs: PlanInputs) -> list[PoolPlan]:
    """The plans of all pools within each quota, then within the month's budget."""
    hours = len(plans[0].replicas)
    plans = list(plans)
    for quota in inputs.quotas:
        here = [
            at for at, plan in enumerate(plans) if plan.gpu == quota.gpu and plan.assumptions.region == quota.region
        ]
        if here:
            price = np.array([float(plans[at].gpus_per_replica) for at in here])
            cut = _cut([plans[at] for at in here], price, np.full(hours, float(quota.gpus)), "gpu_quota")
            for at, plan in zip(here, cut, strict=True):
                plans[at] = plan
    if inputs.budget_usd_per_month is None:
        return plans
    price = np.array([plan.gpus_per_replica * plan.usd_per_gpu_hour for plan in plans])
    cost = price @ np.stack([plan.replicas for plan in plans])
    caps = np.full(hours, np.inf)
    for month in hours_by_month(plans[0].start_s, hours):
        budget = inputs.budget_usd_per_month * (month.stop - month.start) / month.hours_in_month
        caps[month.start : month.stop] = spending_cap(cost[month.start : month.stop], budget)
    return _cut(plans, price, caps, "budget")


def _cut(plans: list[PoolPlan], price: F64, limit: F64, binding: Binding) -> list[PoolPlan]:
    before = np.stack([plan.replicas for plan in plans])
    floor = np.stack([np.minimum(plan.assumptions.warm_floor, plan.replicas) for plan in plans])
    needed = np.clip(np.stack([plan.demand_replicas for plan in plans]), floor, before)
    after = within(limit, price, floor, needed, before)
    code = BINDINGS.index(binding)
    return [
        replace(plan, replicas=row, binding=np.where(row < plan.replicas, np.int8(code), plan.binding))
        for plan, row in zip(plans, after, strict=True)
    ]


def within(limit: F64, price: F64, floor: I64, needed: I64, wanted: I64) -> I64:
    """Replicas of each pool in each hour, such that `price @ replicas` is at most `limit` in each hour.

    `limit` is by hour, `price` (GPUs or USD of a replica) by pool; `floor` ≤ `needed` ≤ `wanted` are pools by hours. Where it is too
    little, spare replicas are given up first, then in each pool the same part of what demand needs, the warm floor last. Pools without a
    price keep theirs, because giving them up would save nothing.
    """
    kept = np.where(price[:, None] > 0, 0, wanted)
    floor, needed = np.maximum(floor, kept), np.maximum(needed, kept)
    replicas = wanted.copy()
    over = price @ wanted > limit
    for least, most in ((needed, wanted), (floor, needed), (kept, floor)):
        if not over.any():
            break
        replicas[:, over] = _between(limit[over], price, least[:, over], most[:, over])
        over[over] = price @ replicas[:, over] > limit[over]
    return replicas


def _between(limit: F64, price: F64, least: I64, most: I64) -> I64:
    """`least`, and for every pool the same part of what `most` has more: the largest part that the limit allows, from none."""
    low, high = np.zeros(len(limit)), np.ones(len(limit))
    span = most - least
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = price @ (least + np.floor(middle * span)) <= limit
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    replicas = least + np.floor(low * span).astype(np.int64)
    return _fill(limit, price, replicas, most)


def _fill(limit: F64, price: F64, replicas: I64, most: I64) -> I64:
    """A replica more for pools that lack the largest part, while it fits."""
    lacking = np.where(most > 0, (most - replicas) / np.maximum(most, 1), 0.0)
    order: npt.NDArray[np.intp] = np.argsort(-lacking, axis=0, kind="stable")
    hours = np.arange(replicas.shape[1])
    left = limit - price @ replicas
    for pools in order:
        more = (replicas[pools, hours] < most[pools, hours]) & (price[pools] <= left)
        replicas[pools, hours] += more
        left -= np.where(more, price[pools], 0.0)
    return replicas


def spending_cap(cost: F64, budget: float) -> float:
    """The most that an hour may cost so that all hours together cost at most `budget`: the dearest hours are cut to it."""
    if cost.sum() <= budget:
        return float("inf")
    ordered = np.sort(cost)
    below = np.concatenate(([0.0], np.cumsum(ordered)[:-1]))
    remaining = len(ordered) - np.arange(len(ordered))
    caps: F64 = (budget - below) / remaining
    return float(caps[np.argmax(caps <= ordered)])
