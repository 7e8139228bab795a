"""From demand to forecasts: compares all candidates (slow, now and then), and forecasts with the winner (fast, at any time)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecasting.backtest import backtest, origins_of
from forecasting.calendar import DAY_S, HOUR_S, WEEK_S, Calendar
from forecasting.candidates import candidates
from forecasting.candidates.curves import FITTED, Curve
from forecasting.candidates.history import History
from forecasting.forecast import LEVELS, Forecast
from forecasting.gate import Score, scores, winner, words
from forecasting.guard import Guard, guard, newest, outgrown
from forecasting.intervals import Band, calibrated
from forecasting.past_events import without_events
from forecasting.series import Series, resampled, usable
from forecasting.stand_in import FLAT_UNTIL_S, NO_FORECAST, stand_ins, stood_in

HORIZONS_S = (30 * 60, 2 * 3600, DAY_S, WEEK_S)
"""Half an hour, two hours, a day and a week."""
MAX_FORECAST_STEPS = 200
MAX_STEPS = 10_080
"""How much history is read: five weeks of 5-minute steps, or 60 weeks of hours."""
FITTED_EVERY_S = WEEK_S
"""How far apart Prophet is fitted in a backtest; a choice can still forecast its whole horizon for so long after its refresh."""
MAX_FITS = 5
_P90 = LEVELS.index(0.9)


@dataclass(frozen=True, slots=True)
class Limits:
    """`prophet` says whether Prophet is fitted at all, `fit_timeout_s` how long each of its (at most MAX_FITS) fits may take."""

    prophet: bool = True
    fit_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What a refresh concluded for one horizon: enough to forecast from, until the next refresh.

    All of it is plain: `msgspec.json.encode(choice)` and `msgspec.json.decode(text, type=Choice)` store it and bring it back.
    """

    horizon_s: int
    step_s: int
    candidate: str
    skill: float | None
    reason: str
    band: Band
    scores: tuple[Score, ...]
    curve: Curve | None = None
    guard: Guard | None = None


def refresh(
    series: Series,
    horizons_s: Sequence[int] = HORIZONS_S,
    calendar: Calendar | None = None,
    incumbents: Mapping[int, str] | None = None,
    limits: Limits | None = None,
    months: Series | None = None,
) -> tuple[Choice, ...]:
    """Backtests every candidate and chooses one per horizon. `incumbents` are the candidates in use, by horizon.

    `months` is the same demand over a longer time in longer steps: Prophet is fitted to it, and horizons with such steps are compared
    over it. Takes seconds where Prophet is fitted; never raises for what demand looks like.
    """
    calendar, limits = calendar or Calendar(), limits or Limits()
    plain = usual(series, calendar)
    longer = plain if months is None else usual(months, calendar)
    curves, note = _curves(longer, calendar, max(horizons_s, default=0), limits)
    choices = []
    for horizon_s in horizons_s:
        step_s = step_of(series.step_s, horizon_s)
        known = plain if step_s % longer.step_s else longer
        choices.append(_choice(known, step_s, horizon_s, calendar, (incumbents or {}).get(horizon_s), curves, note))
    return tuple(choices)


def predict(series: Series, choice: Choice, calendar: Calendar | None = None) -> Forecast:
    """The forecast from the end of the series' last whole step to the horizon, with the candidate that was chosen.

    What stands in at this horizon (`forecasting.stand_in`) is used where that one knows too little for a step, and altogether
    while its newest errors trip its guard. It is empty where nothing is known. Where demand has outgrown all of these, levels above the
    median are at least the highest value of the last 24 hours. Takes milliseconds.
    """
    calendar = calendar or Calendar()
    plain = usual(series, calendar)
    history = _history(plain, choice.step_s, choice.horizon_s, calendar)
    leads = np.arange(1, history.ahead + 1)
    # The guard looks further back than the newest fit, where what was fitted is seen as well.
    curves = (replace(choice.curve, fitted_s=history.series.start_s),) if choice.curve else ()
    before, names = newest(history), stand_ins(history, choice.horizon_s)
    origins = np.append(before, history.steps)
    every = candidates(curves)
    known = choice.candidate in every
    paths = every[choice.candidate](history, origins, leads) if known else np.full((len(origins), len(leads)), np.nan)
    name, band, skill, reason = choice.candidate, choice.band, choice.skill, choice.reason
    if choice.guard and choice.guard.trips(paths[:-1, -1], history.series.values[before + history.ahead - 1]):
        paths, name, band, skill = np.full(paths.shape, np.nan), names[0], choice.guard.band, 0.0
        used = words(names[0]).capitalize()
        reason = f"{used} stands in: {words(choice.candidate)} is more wrong at present than it was in its backtest."
    paths = np.where(np.isnan(paths), stood_in(history, names, origins, leads), paths)
    start_s = history.series.end_s
    if not np.isfinite(paths[-1]).all():
        reason = "Nothing is forecast: no demand was measured long enough yet."
        return Forecast(start_s, choice.step_s, dict.fromkeys(LEVELS, np.array([])), name, None, reason)
    table = band.around(paths[-1:], leads)[:, 0]
    hour = max(1, HOUR_S // choice.step_s)
    if choice.horizon_s > FLAT_UNTIL_S and len(before) >= hour:
        came = plain.values[(start_s - hour * choice.step_s - plain.start_s) // plain.step_s :]
        # What was said of this hour at the horizon, in the band of the lead that has the narrowest.
        said = band.around(np.repeat(paths[-1 - hour : -1, -1:], len(leads), axis=1), leads)[_P90].max(axis=0).min()
        if outgrown(float(said), came):
            table[_P90:] = np.fmax(table[_P90:], stood_in(history, (NO_FORECAST,), origins[-1:], leads))
            reason += " Demand has left what was forecast of it: from P90 on, at least the highest value of the last 24 hours is assumed."
    table *= calendar.factors(history.times_s()[history.steps :], choice.step_s)
    quantiles = dict(zip(LEVELS, table, strict=True))
    return Forecast(start_s, choice.step_s, quantiles, name, skill, reason)


def unchosen(series: Series, horizon_s: int, calendar: Calendar, why: str) -> Choice:
    """The choice where nothing was compared, for the reason `why` (a clause): what stands in at this horizon.

    Before a day was measured, nothing forecasts more than FLAT_UNTIL_S ahead: the day's highest value is assumed, and that is said.
    """
    step_s = step_of(series.step_s, horizon_s)
    history = _history(usual(series, calendar), step_s, horizon_s, calendar)
    name = stand_ins(history, horizon_s)[0]
    if name != NO_FORECAST:
        return Choice(horizon_s, step_s, name, None, f"{words(name).capitalize()} is used: {why}.", Band.guess(), ())
    measured = history.steps * step_s / HOUR_S
    reason = (
        f"No forecast beyond {FLAT_UNTIL_S // HOUR_S} hours: a day of demand is needed, and there are {measured:.0f} hours. "
        "Their highest value is assumed throughout."
    )
    return Choice(horizon_s, step_s, name, None, reason, Band.none(), ())


def step_of(step_s: int, horizon_s: int) -> int:
    """The step of a forecast: that of the series, or a multiple of it that leaves MAX_FORECAST_STEPS at most."""
    multiples = (1, 2, 3, 6, 12, 24, 36, 72, 144, 288)
    return next((step_s * m for m in multiples if horizon_s <= MAX_FORECAST_STEPS * step_s * m), step_s * multiples[-1])


def usual(series: Series, calendar: Calendar) -> Series:
    """The series without impossible values, gaps before its first value, and what planned events with a factor added."""
    clean, _ = usable(series)
    values = without_events(clean, calendar)
    measured = np.flatnonzero(~np.isnan(values))
    first = int(measured[0]) if len(measured) else len(clean)
    return Series(clean.start_s + first * clean.step_s, clean.step_s, values[first:])


def _history(series: Series, step_s: int, horizon_s: int, calendar: Calendar) -> History:
    return History(resampled(series, step_s).last(MAX_STEPS), calendar, ahead=max(1, -(-horizon_s // step_s)))


def _choice(
    series: Series,
    step_s: int,
    horizon_s: int,
    calendar: Calendar,
    incumbent: str | None,
    curves: Sequence[Curve],
    note: str,
) -> Choice:
    history = _history(series, step_s, horizon_s, calendar)
    baseline = stand_ins(history, horizon_s)[0]
    if baseline == NO_FORECAST or not len(origins_of(history, history.ahead)):
        return unchosen(series, horizon_s, calendar, "there is no history to compare forecasts")
    tested = backtest(history, candidates(curves), history.ahead)
    ranked = scores(tested, baseline)
    if note:
        ranked = (*ranked, Score("prophet", note=note))
    span = int(tested.origins[-1] - tested.origins[0])
    best, reason = winner(ranked, incumbent, span, history.ahead, baseline)
    bands = {
        name: calibrated(tested.expected[name], tested.actual, tested.origins, tested.leads, adapted=True)
        for name in {best.candidate, baseline}
    }
    band = bands[best.candidate]
    guarded = guard(tested, best.candidate, bands[baseline]) if best.candidate != baseline else None
    if not band.measured:
        reason += " Its band is a guess until more of its errors are known."
    curve = curves[-1] if best.candidate in FITTED else None
    return Choice(horizon_s, step_s, best.candidate, best.skill, reason, band, ranked, curve, guarded)


def _curves(series: Series, calendar: Calendar, horizon_s: int, limits: Limits) -> tuple[tuple[Curve, ...], str]:
    """Fits as of now, and of each week of the backtest; or none, and why."""
    if not limits.prophet:
        return (), "Prophet is switched off."
    if not len(series) or np.nanmin(series.values) == np.nanmax(series.values):
        return (), "Demand does not change: there is nothing to fit."
    # Prophet takes a second to import, and only a refresh needs it.
    from forecasting.candidates.prophet import FitError, curve

    fits: list[Curve] = []
    for number in range(MAX_FITS):
        steps = len(series) - number * FITTED_EVERY_S // series.step_s
        try:
            fits.append(curve(series.until(max(0, steps)), calendar, horizon_s + FITTED_EVERY_S, limits.fit_timeout_s))
        except FitError as error:
            if not fits:
                return (), str(error)
            break
    return tuple(reversed(fits)), ""
