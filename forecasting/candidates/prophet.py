"""Prophet on the real calendar: weeks of history, local time, holidays and planned events."""

import logging
from tempfile import TemporaryDirectory

import cmdstanpy
import numpy as np
import pandas as pd
from prophet import Prophet

from forecasting.calendar import DAY_S, HOUR_S, Calendar
from forecasting.candidates.curves import Curve
from forecasting.series import F64, Series, resampled

FIT_STEP_S = HOUR_S // 2
MAX_STEPS = 28 * DAY_S // FIT_STEP_S
"""A fit takes the last four weeks in half hours: its time grows with the steps, and its peaks are no sharper with more."""
MIN_DAYS = 2
_HARMONICS_OF_A_DAY = 10
_HARMONICS_OF_A_WEEK = 3
_WEEKS_OF_A_TREND = 3
"""With fewer, what looks like a trend is mostly the weekday, and Prophet would extend it: growth is flat."""

# What went wrong with a fit is in its FitError.
logging.getLogger("prophet").setLevel(logging.ERROR)
cmdstanpy.disable_logging()


class FitError(RuntimeError):
    """Prophet could not be fitted. Permanent for this history: the message says why."""


def curve(series: Series, calendar: Calendar, ahead_s: int, timeout_s: float) -> Curve:
    """Fits the series and looks `ahead_s` beyond its end. Raises FitError, after `timeout_s` at the latest."""
    step_s = FIT_STEP_S if FIT_STEP_S % series.step_s == 0 else series.step_s * max(1, FIT_STEP_S // series.step_s)
    known = resampled(series, step_s).last(MAX_STEPS)
    days = int((~np.isnan(known.values)).sum()) * step_s / DAY_S
    if days < MIN_DAYS:
        raise FitError(f"Prophet needs {MIN_DAYS} days of demand, and there are {days:.1f}.")
    whole = Series(known.start_s, step_s, np.full(len(known) + -(-ahead_s // step_s), np.nan))
    frame = _frame(whole, calendar)
    shown = _shown(calendar, whole, known)
    for name, share in shown.items():
        frame[name] = share
    fitted = frame.iloc[: len(known)].assign(y=known.values)
    model = _model(calendar, whole, list(shown), weeks=(known.end_s - known.start_s) / (7 * DAY_S))
    try:
        with TemporaryDirectory(prefix="weir-prophet-") as folder:
            model.fit(fitted, timeout=timeout_s, output_dir=folder)
        expected = model.predict(frame)["yhat"].to_numpy(dtype=np.float64)
    except (RuntimeError, ValueError, TimeoutError, OSError) as error:
        raise FitError(f"Prophet could not be fitted within {timeout_s:.0f} s: {type(error).__name__}.") from error
    if not np.isfinite(expected).all():
        raise FitError("Prophet's fit has values that are no numbers.")
    return Curve(known.end_s, whole.start_s, step_s, tuple(np.maximum(expected, 0.0).tolist()))


def _frame(whole: Series, calendar: Calendar) -> pd.DataFrame:
    times_s = whole.times_s()
    return pd.DataFrame({"ds": pd.to_datetime(times_s + calendar.offsets_s(times_s), unit="s")})


def _shown(calendar: Calendar, whole: Series, known: Series) -> dict[str, F64]:
    """The events whose effect is to be learned, by name, with the share of each step; those that history has seen."""
    times_s = whole.times_s()
    shares: dict[str, F64] = {}
    for event in calendar.events:
        if event.factor is None:
            name = f"event {event.name}"
            shares[name] = np.maximum(shares.get(name, 0.0), event.share_of(times_s, whole.step_s))
    return {name: share for name, share in shares.items() if share[: len(known)].any()}


def _model(calendar: Calendar, whole: Series, events: list[str], weeks: float) -> Prophet:
    days = [{"ds": pd.Timestamp(day), "holiday": name} for day, name in calendar.holidays(whole.start_s, whole.end_s)]
    model = Prophet(
        holidays=pd.DataFrame(days) if days else None,
        growth="linear" if weeks >= _WEEKS_OF_A_TREND else "flat",
        n_changepoints=int(weeks),
        daily_seasonality=_HARMONICS_OF_A_DAY,
        weekly_seasonality=_HARMONICS_OF_A_WEEK if weeks >= 1 else False,
        yearly_seasonality=False,
        uncertainty_samples=0,
    )
    for name in events:
        model.add_regressor(name, standardize=False)
    return model
