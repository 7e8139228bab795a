"""What people know of the future: planned events, and each region's holidays and time zone."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet.models import LLMModel, Region
from controlplane.fleet.models.named import NamedByStart
from controlplane.telemetry.core.dimension_values import MAX_VALUE_CHARS
from forecasting import calendar


class PlannedEvent(NamedByStart):
    """A launch, a campaign, or another event that changes demand. Past events teach the forecasts, future ones move them."""

    class Kind(models.TextChoices):
        LAUNCH = "launch", "Launch"
        CAMPAIGN = "campaign", "Campaign"
        MIGRATION = "migration", "Migration"
        OTHER = "other", "Other"

    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=Kind.choices, default=Kind.LAUNCH)
    start = models.DateTimeField(help_text="UTC.")
    duration_s = models.PositiveIntegerField(
        "duration, s", default=86_400, validators=[MinValueValidator(300), MaxValueValidator(366 * 86_400)]
    )
    expected_factor = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0.01), MaxValueValidator(1000.0)],
        help_text="What demand is multiplied by while it lasts: 2 doubles it. Empty: learnt from earlier events of the same name.",
    )
    model = models.CharField(max_length=MAX_VALUE_CHARS, blank=True, help_text="Such as chat-large. Empty: all.")
    tier = models.CharField(max_length=MAX_VALUE_CHARS, blank=True, help_text="Empty: all.")
    region = models.CharField(max_length=MAX_VALUE_CHARS, blank=True, help_text="Empty: all.")
    enabled = models.BooleanField(default=True)
    author = models.CharField(max_length=150, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "planned event"
        ordering = ["-start", "name"]

    def starts(self) -> str:
        return f"{self.start:%Y%m%d-%H%M}"

    def owned(self) -> Owned:
        """Of the model whose demand it changes; of all demand, nobody's."""
        model = LLMModel.objects.filter(name=self.model).first()
        return model.owned() if model else Owned()

    def concerns(self, model: str, tier: str, region: str) -> bool:
        """Whether it changes the demand of this model, tier and region."""
        return all(
            not wanted or wanted == value
            for wanted, value in ((self.model, model), (self.tier, tier), (self.region, region))
        )

    def to_event(self) -> calendar.PlannedEvent:
        """The value. Raises CalendarError where the row was written without validation."""
        start_s = int(self.start.timestamp())
        return calendar.PlannedEvent(self.name, start_s, start_s + self.duration_s, self.expected_factor)


class RegionCalendar(models.Model):
    """Whose holidays and which local time the users of a region live by. A region without a row has UTC and no holidays."""

    region = models.OneToOneField(Region, on_delete=models.CASCADE, related_name="calendar")
    country = models.CharField(max_length=2, blank=True, help_text="ISO 3166 code, such as DE. Empty: no holidays.")
    subdivision = models.CharField(
        max_length=10,
        blank=True,
        help_text="A state or province of it, such as BY. Empty: holidays of the whole country.",
    )
    zone = models.CharField(max_length=64, default="UTC", help_text="IANA name, such as Europe/Berlin.")

    class Meta:
        verbose_name = "region's calendar"
        verbose_name_plural = "regions' calendars"
        ordering = ["region__name"]

    def __str__(self) -> str:
        return f"{self.region}: {self.country or 'no holidays'}, {self.zone}"

    def to_calendar(self) -> calendar.Calendar:
        """The value, without events. Raises CalendarError."""
        return calendar.Calendar(self.zone, self.country, self.subdivision)

    def clean(self) -> None:
        try:
            self.to_calendar()
        except calendar.CalendarError as error:
            field = {"timezone": "zone"}.get(str(error).partition(" ")[0], str(error).partition(" ")[0])
            known = {field.name for field in self._meta.fields}
            raise ValidationError({field: str(error)} if field in known else str(error)) from None
