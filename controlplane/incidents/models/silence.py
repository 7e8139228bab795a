"""Silences."""

from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import models

from controlplane.accounts.core.rule import EVERY_TEAM, Owned
from controlplane.incidents.core.silences import Matcher, Silence, matcher
from controlplane.incidents.models.incident import Incident
from controlplane.slo.models import StoredObjective

MAX_SILENCE = timedelta(days=92)
MAX_MATCHERS = 20


def validate_matchers(value: object) -> None:
    """A list of texts such as `tier=batch`, at least one. Raises ValidationError."""
    if not isinstance(value, list) or not value:
        raise ValidationError("Give at least one matcher, such as objective=chat-ttft or tier=batch.")
    for text in value:
        try:
            matcher(str(text))
        except ValueError as error:
            raise ValidationError(str(error)) from None


class SilenceRecord(models.Model):
    """Alerts that match open incidents, and nobody is notified of them until it ends."""

    matchers = models.JSONField(validators=[validate_matchers], help_text='Such as ["model=chat-large", "tier=batch"].')
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    author = models.CharField(max_length=200)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "silence"
        ordering = ["-ends_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gte=models.F("starts_at")), name="silence_ends_after_start"
            )
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {', '.join(self.matchers)}"

    def clean(self) -> None:
        if self.starts_at and self.ends_at and self.ends_at <= self.starts_at:
            raise ValidationError({"ends_at": "A silence ends after it starts: choose a later end."})
        if self.starts_at and self.ends_at and self.ends_at - self.starts_at > MAX_SILENCE:
            longest = f"A silence lasts at most {MAX_SILENCE.days} days: change the objective instead."
            raise ValidationError({"ends_at": [longest]})
        if isinstance(self.matchers, list) and len(self.matchers) > MAX_MATCHERS:
            raise ValidationError({"matchers": [f"Give at most {MAX_MATCHERS} matchers."]})

    def owned(self) -> Owned:
        """Whose incidents it can hide: of the owner, the objective or the component that it names; else every team's."""
        exact = {each.name: each.value for each in self.value().matchers if each.op == "=" and "*" not in each.value}
        if "owner" in exact:
            return Owned.by(exact["owner"])
        named = {name: exact[name] for name in ("objective", "component") if name in exact}
        objective = StoredObjective.objects.select_related("owner").filter(slug=named.get("objective", "")).first()
        if objective is not None:
            return objective.owned()
        incident = Incident.objects.filter(**named).order_by("-pk").first() if named else None
        return incident.owned() if incident is not None else Owned.by(EVERY_TEAM)

    def value(self) -> Silence:
        matchers: tuple[Matcher, ...] = tuple(matcher(text) for text in self.matchers)
        return Silence(str(self.pk), matchers, self.starts_at, self.ends_at)
