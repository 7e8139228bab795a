"""The newest forecast of each demand series, what earlier ones said, and which candidate made them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import structlog
from django.db import models

from controlplane.telemetry.core.dimension_values import MAX_VALUE_CHARS
from forecasting.forecast import LEVELS, UNREADABLE, Forecast
from forecasting.refresh import Choice
from forecasting.series import F64

log = structlog.get_logger(__name__)

_DIGITS = 6
"""Significant digits of stored quantiles."""


class Measure(models.TextChoices):
    """What of the demand is forecast, each per second."""

    REQUESTS = "requests", "Requests/s"
    INPUT_TOKENS = "input_tokens", "Input tokens/s"
    OUTPUT_TOKENS = "output_tokens", "Output tokens/s"


class DemandSeries(models.Model):
    """A measure of the demand of one model, tier and region. A dimension that the ledger does not know is empty."""

    model = models.CharField(max_length=MAX_VALUE_CHARS, blank=True)
    tier = models.CharField(max_length=MAX_VALUE_CHARS, blank=True)
    region = models.CharField(max_length=MAX_VALUE_CHARS, blank=True)
    measure = models.CharField(max_length=20, choices=Measure.choices)
    horizon_s = models.PositiveIntegerField("horizon, s", help_text="How far ahead the forecast reaches.")

    class Meta:
        abstract = True


class StoredForecast(DemandSeries):
    """The newest forecast of a series at one horizon. `made_at` says how old it is: the worker renews it."""

    made_at = models.DateTimeField(db_index=True)
    start_s = models.BigIntegerField(help_text="Start of its first step, s since the epoch.")
    step_s = models.PositiveIntegerField("step, s")
    quantiles = models.JSONField(help_text="Values per s of each step, by level.")
    candidate = models.CharField(max_length=50, help_text="Which forecaster won the backtest.")
    skill = models.FloatField(
        null=True, blank=True, help_text="1 - its pinball loss / that of the baseline; empty before it is known."
    )
    reason = models.TextField(help_text="Why this candidate.")
    scores = models.JSONField(default=dict, help_text="Mean pinball loss of each candidate in the backtest.")
    choice = models.JSONField(
        default=dict, help_text="What the backtest concluded: the candidate, and how it forecasts."
    )
    chosen_at = models.DateTimeField(null=True, blank=True, help_text="When the candidates were last compared.")
    error = models.CharField(max_length=500, blank=True, help_text="Why the last comparison failed; else empty.")
    history_from_s = models.BigIntegerField(help_text="Start of the history that it was made of, s since the epoch.")
    measured_steps = models.PositiveIntegerField(help_text="Steps of the history that were measured.")
    gap_steps = models.PositiveIntegerField(help_text="Steps of the history that were not.")
    took_s = models.FloatField("fit, s", help_text="How long the last comparison took.")

    class Meta:
        verbose_name = "forecast"
        ordering = ["model", "tier", "region", "measure", "horizon_s"]
        constraints = [
            models.UniqueConstraint(
                fields=["model", "tier", "region", "measure", "horizon_s"], name="forecast_of_series_and_horizon"
            )
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.tier} {self.region}: {self.measure} {self.horizon_s} s ahead"

    @property
    def is_empty(self) -> bool:
        """Nothing was measured long enough to forecast anything: whoever reads forecasts leaves it out."""
        return isinstance(self.quantiles, dict) and not any(self.quantiles.values())

    def take(self, forecast: Forecast) -> None:
        """Set the fields that the forecast has, without saving."""
        self.start_s, self.step_s, self.quantiles = forecast.start_s, forecast.step_s, _stored(forecast.quantiles)
        self.candidate, self.skill, self.reason = forecast.candidate, forecast.skill, forecast.reason

    def to_forecast(self) -> Forecast:
        """The value. Where the row cannot be read (it was written by hand, or by another version) one without steps that says so."""
        try:
            quantiles = {float(level): np.array(values, np.float64) for level, values in self.quantiles.items()}
            return Forecast(self.start_s, self.step_s, quantiles, self.candidate, self.skill, self.reason)
        except (AttributeError, TypeError, ValueError) as error:
            log.warning("forecast.unreadable", forecast=str(self), reason=str(error))
            said = (
                f"Its stored forecast cannot be read and counts for nothing until the worker has made it anew: {error}."
            )
            return Forecast(self.start_s, 1, {level: np.zeros(0) for level in LEVELS}, UNREADABLE, None, said)

    def to_choice(self) -> Choice | None:
        """What the backtest concluded; None where there was none, or where it is of an older version."""
        return read_choice(self.choice)


def read_choice(choice: Mapping[str, Any]) -> Choice | None:
    try:
        return msgspec.convert(choice, Choice)
    except msgspec.ValidationError:
        return None


def _stored(quantiles: Mapping[float, F64]) -> dict[str, list[float]]:
    return {
        str(level): [float(f"{value:.{_DIGITS}g}") for value in values] for level, values in sorted(quantiles.items())
    }


class ForecastRecord(DemandSeries):
    """What was forecast for the steps of one day, at one distance ahead. What came is read from the rollups.

    A point is `[start_s of the step, made at (s), candidate, P10, P50, P90]`. A later forecast of the same step and distance
    replaces the earlier.
    """

    day = models.DateField(db_index=True)
    step_s = models.PositiveIntegerField("step, s")
    points = models.JSONField(default=list)

    class Meta:
        verbose_name = "record of forecasts"
        verbose_name_plural = "records of forecasts"
        ordering = ["-day", "model", "tier", "region", "measure", "horizon_s"]
        constraints = [
            models.UniqueConstraint(
                fields=["model", "tier", "region", "measure", "horizon_s", "day"], name="record_of_series_and_day"
            )
        ]

    def __str__(self) -> str:
        return f"{self.day}: {self.model} {self.tier} {self.region}: {self.measure} {self.horizon_s} s ahead"


class CandidateChange(DemandSeries):
    """Another candidate won: a promotion, or a demotion of one that no longer earned its use."""

    at = models.DateTimeField(db_index=True)
    before = models.CharField(max_length=50)
    after = models.CharField(max_length=50)
    skill = models.FloatField(null=True, blank=True, help_text="Of the new one, over the baseline.")
    reason = models.TextField()

    class Meta:
        verbose_name = "change of candidate"
        verbose_name_plural = "changes of candidates"
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M}: {self.before} → {self.after}"
