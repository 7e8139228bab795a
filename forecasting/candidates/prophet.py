"""Prophet on the days of the real calendar, with the hours of each weekday: months of history, holidays and planned events.

Prophet's curve of a day is the same on every weekday, and a curve for each makes its fit take half a minute. So it fits the level of
whole days, of which a year are a few hundred, and the hours of a weekday are what they were of late.
"""

import logging
from dataclasses import dataclass
from datetime import date
from tempfile import TemporaryDirectory

import cmdstanpy
import numpy as np
import numpy.typing as npt
import pandas as pd
from prophet import Prophet

from forecasting.calendar import DAY_S, HOUR_S, WEEK_S, Calendar
from forecasting.candidates.curves import Curve
from forecasting.candidates.history import Ints
from forecasting.series import F64, Series, resampled

MIN_DAYS = 21
"""With fewer, what looks like a trend is mostly the weekday, and Prophet would extend it."""
MAX_STEPS = 56 * WEEK_S // HOUR_S
KEPT_S = 6 * WEEK_S
"""A curve begins so long before its fit, because forecasts are corrected by how it was wrong of late."""
HOLIDAY = "holiday"
"""All holidays are one effect: of each by its name a year has a single day, and the next one would be unknown in the first."""
_DAY = DAY_S // HOUR_S
_EPOCH, _MONDAY = date(1970, 1, 1).toordinal(), date(1970, 1, 1).weekday()
_SHAPE_DAYS = 84
_HALF_LIFE_DAYS = 14.0
"""The age at which a day says half as much of its weekday's hours as a new one."""
_HARMONICS_OF_A_WEEK = 3
_DAYS_OF_A_CHANGEPOINT = 14
_MAX_CHANGEPOINTS = 25

# What went wrong with a fit is in its FitError.
logging.getLogger("prophet").setLevel(logging.ERROR)
cmdstanpy.disable_logging()


class FitError(RuntimeError):
    """Prophet could not be fitted. Permanent for this history: the message says why."""


def curve(series: Series, calendar: Calendar, ahead_s: int, timeout_s: float) -> Curve:
    """Fits the series and looks `ahead_s` beyond its end. Raises FitError, after `timeout_s` at the latest."""
    known = series if HOUR_S % series.step_s else resampled(series, HOUR_S)
    days = int((~np.isnan(known.values)).sum()) * known.step_s / DAY_S
    if days < MIN_DAYS or known.step_s != HOUR_S:
        raise FitError(f"Prophet needs {MIN_DAYS} days of demand by the hour, and there are {days:.1f}.")
    known = known.last(MAX_STEPS)
    hours = _Hours.of(known, calendar, -(-ahead_s // HOUR_S))
    demand = hours.table(np.append(known.values, np.full(len(hours.times_s) - len(known), np.nan)))
    seen = int(hours.day[len(known) - 1]) + 1
    events = {name: hours.table(share, 0.0) for name, share in _events(calendar, hours.times_s).items()}
    usual = (
        np.where(np.logical_or.reduce([share > 0 for share in events.values()]), np.nan, demand) if events else demand
    )
    shape = _shape(usual, hours.weekday, hours.holiday, seen)
    measured = ~np.isnan(demand)
    weight = np.where(measured, shape, 0.0).sum(axis=1)
    enough = (measured.sum(axis=1) >= _DAY / 2) & (weight > 0)
    level = np.divide(np.nansum(demand, axis=1), weight, out=np.full(len(demand), np.nan), where=enough)
    shares = {name: (share * shape).sum(axis=1) / shape.sum(axis=1) for name, share in events.items()}
    shown = {name: share for name, share in shares.items() if share[:seen].any()}
    flags = {HOLIDAY: hours.holiday.astype(np.float64)} if hours.holiday[:seen].any() else {}
    usually, with_events = _expected(level, seen, hours.first_day, flags, shown, timeout_s)
    expected = usually[:, None] * shape
    if shown:
        within = np.add.reduce([events[name] * shape for name in shown])
        of_day = within.sum(axis=1, keepdims=True) / shape.sum(axis=1, keepdims=True)
        added = (with_events - usually)[:, None] * within
        expected += np.divide(added, of_day, out=np.zeros(added.shape), where=of_day > 0)
    values = expected[hours.day, hours.hour]
    if not np.isfinite(values).all():
        raise FitError("Prophet's fit has values that are no numbers.")
    first = max(0, len(known) - KEPT_S // HOUR_S)
    return Curve(known.end_s, int(hours.times_s[first]), HOUR_S, tuple(np.maximum(values[first:], 0.0).tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class _Hours:
    """Steps of an hour, with the local day (from 0) and hour of each.

    By day: whether it is a holiday, one within a weekend left out; and the weekday (Monday is 0) whose hours it has, of a holiday the
    last one of a weekend.
    """

    times_s: Ints
    day: Ints
    hour: Ints
    first_day: int
    weekday: Ints
    holiday: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, known: Series, calendar: Calendar, ahead: int) -> "_Hours":
        times_s = known.start_s + HOUR_S * np.arange(len(known) + ahead, dtype=np.int64)
        local_s = times_s + calendar.offsets_s(times_s)
        first = int(local_s[0] // DAY_S)
        day = local_s // DAY_S - first
        days = first + np.arange(int(day[-1]) + 1)
        weekday = (days + _MONDAY) % 7
        named = [each.toordinal() - _EPOCH for each, _ in calendar.holidays(int(times_s[0]), int(times_s[-1]))]
        free = np.isin(weekday, list(calendar.weekend))
        like = np.where(holiday := np.isin(days, named) & ~free, max(calendar.weekend), weekday)
        return cls(times_s, day, local_s % DAY_S // HOUR_S, first, like, holiday)

    def table(self, values: F64, missing: float = np.nan) -> F64:
        """The values by day and hour."""
        table = np.full((len(self.weekday), _DAY), missing)
        table[self.day, self.hour] = values
        return table


def _events(calendar: Calendar, times_s: Ints) -> dict[str, F64]:
    """The events whose effect is to be learned, by name, with the share of each step."""
    shares: dict[str, F64] = {}
    for event in calendar.events:
        if event.factor is None:
            name = f"event {event.name}"
            shares[name] = np.maximum(shares.get(name, 0.0), event.share_of(times_s, HOUR_S))
    return shares


def _shape(demand: F64, weekday: Ints, holiday: npt.NDArray[np.bool_], seen: int) -> F64:
    """Of each day and hour its demand over that of the mean hour, as on the same weekday of late."""
    recent = np.arange(max(0, seen - _SHAPE_DAYS), seen)
    whole = recent[((~np.isnan(demand[recent])).sum(axis=1) >= 3 * _DAY / 4) & ~holiday[recent]]
    means = np.nanmean(demand[whole], axis=1, keepdims=True) if len(whole) else np.zeros((0, 1))
    whole, means = whole[means[:, 0] > 0], means[means[:, 0] > 0]
    shares = demand[whole] / means
    weights = np.where(np.isnan(shares), 0.0, (0.5 ** ((seen - whole) / _HALF_LIFE_DAYS))[:, None])

    def mean(rows: npt.NDArray[np.bool_], otherwise: F64) -> F64:
        total = weights[rows].sum(axis=0)
        summed = (weights * np.nan_to_num(shares))[rows].sum(axis=0)
        means: F64 = np.divide(summed, total, out=otherwise.copy(), where=total > 0)
        return means

    every = mean(np.ones(len(whole), dtype=np.bool_), np.ones(_DAY))
    by_weekday = np.stack([mean(weekday[whole] == each, every) for each in range(7)])
    shape: F64 = by_weekday[weekday]
    return shape


def _expected(
    level: F64, seen: int, first_day: int, flags: dict[str, F64], events: dict[str, F64], timeout_s: float
) -> tuple[F64, F64]:
    """What Prophet expects of each day, fitted to the first `seen`: without the events, and with them."""
    days = pd.to_datetime((first_day + np.arange(len(level))) * DAY_S, unit="s")
    frame = pd.DataFrame({"ds": days, "y": level, **flags, **events})
    model = Prophet(
        growth="linear",
        n_changepoints=min(_MAX_CHANGEPOINTS, seen // _DAYS_OF_A_CHANGEPOINT),
        daily_seasonality=False,
        weekly_seasonality=_HARMONICS_OF_A_WEEK,
        yearly_seasonality=False,  # needs two years, and demand is kept for 13 months
        seasonality_mode="multiplicative",
        uncertainty_samples=0,
    )
    for name in (*flags, *events):
        model.add_regressor(name, standardize=False)
    try:
        with TemporaryDirectory(prefix="weir-prophet-") as folder:
            model.fit(frame.iloc[:seen], timeout=timeout_s, output_dir=folder)
        usually = model.predict(frame.assign(**dict.fromkeys(events, 0.0)))["yhat"].to_numpy(dtype=np.float64)
        with_events = model.predict(frame)["yhat"].to_numpy(dtype=np.float64) if events else usually
    except (RuntimeError, ValueError, TimeoutError, OSError) as error:
        raise FitError(f"Prophet could not be fitted within {timeout_s:.0f} s: {type(error).__name__}.") from error
    return np.maximum(usually, 0.0), np.maximum(with_events, 0.0)
