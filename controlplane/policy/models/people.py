"""What people say while policies run. Each has an end."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from controlplane.accounts.core.rule import EVERY_TEAM, Owned
from controlplane.core.formatting import TEXT
from controlplane.fleet.models import LLMModel, Pool, Tier
from controlplane.policy import owning_teams
from controlplane.policy.core import document
from controlplane.policy.core.spec import Degradation
from controlplane.policy.models.revision import PolicyRevision

MAX_OVERRIDE = timedelta(days=31)
MAX_REPLICAS = 10_000


class WithAnEnd(models.Model):
    """In force from `starts_at` until `ends_at`, or until somebody ends it before; not while it `waits` for an approval."""

    waits: Any = False
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    created_at = models.DateTimeField(auto_now_add=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(db_index=True)
    ended_by = models.CharField(max_length=150, blank=True, help_text="Who ended it early; empty: nobody.")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None or self.ends_at <= timezone.now()

    def clean(self) -> None:
        """Messages name the field, the value and the remedy."""
        now = timezone.now()
        starts = self.starts_at or now
        if self.ends_at and self.ends_at <= max(starts, now):
            raise ValidationError(
                {"ends_at": f"ends_at={self.ends_at:%Y-%m-%d %H:%M} is over already: choose a later end"}
            )
        if self.ends_at and self.ends_at - starts > MAX_OVERRIDE:
            longest = f"ends_at={self.ends_at:%Y-%m-%d %H:%M} is more than {MAX_OVERRIDE.days} days away: change the policy instead"
            raise ValidationError({"ends_at": longest})
        if not (self.reason or "").strip():
            raise ValidationError({"reason": "reason is missing: say why, so that others know when it may end"})


class Pause(WithAnEnd):
    """While it lasts, policies within its scope decide and record, and do not act."""

    class Scope(models.TextChoices):
        ALL = "all", "Everything"
        POLICY = "policy", "One policy"
        MODEL = "model", "One model"
        POOL = "pool", "One pool"

    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.POOL)
    target = models.CharField(max_length=200, blank=True, help_text="The name of it; empty for everything.")

    class Meta:
        ordering = ["-starts_at"]
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(condition=models.Q(ends_at__gt=models.F("starts_at")), name="pause_ends_after_start")
        ]

    def __str__(self) -> str:
        return f"pause of {self.target or 'everything'}"

    def owned(self) -> Owned:
        """Of everything, every team's."""
        if self.scope == self.Scope.ALL:
            return Owned.by(EVERY_TEAM)
        if self.scope == self.Scope.POLICY:
            newest = PolicyRevision.objects.filter(name=self.target).order_by("-number").first()
            return newest.owned() if newest else Owned()
        return owning_teams.of_subject(**{str(self.scope): self.target})

    def clean(self) -> None:
        super().clean()
        if self.scope == self.Scope.ALL:
            if self.target:
                raise ValidationError(
                    {"target": f"target={self.target!r} is given for everything: leave it empty, or choose a scope"}
                )
            return
        if self.scope not in self.Scope.values:
            return  # its field says so
        known = {
            self.Scope.POLICY: PolicyRevision.objects.values_list("name", flat=True).distinct().order_by("name"),
            self.Scope.MODEL: LLMModel.objects.values_list("name", flat=True),
            self.Scope.POOL: Pool.objects.values_list("name", flat=True),
        }
        _known("target", self.target, self.scope, known[self.Scope(self.scope)])


class Overrides(models.QuerySet["Override"]):
    def counting(self) -> "Overrides":
        """Without those that wait for an approval."""
        return self.filter(waits=False)


class Override(WithAnEnd):
    """While it lasts, a pool has this many replicas, or a model's tier this step of the ladder, whatever policies conclude. Rails
    still hold.
    """

    pool = models.CharField(max_length=100, blank=True)
    replicas = models.PositiveIntegerField(null=True, blank=True)
    model = models.CharField(max_length=200, blank=True)
    tier = models.CharField(max_length=63, blank=True, help_text="Empty: all tiers of the model.")
    step = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Of the ladder; 0 is no degradation.")
    waits = models.BooleanField("waits for approval", default=False, editable=False, help_text="It does not count yet.")
    approved_by = models.CharField(max_length=150, blank=True, editable=False)
    objects = Overrides.as_manager()

    class Meta:
        ordering = ["-starts_at"]
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")), name="override_ends_after_start"
            ),
            models.CheckConstraint(
                condition=models.Q(~models.Q(pool=""), replicas__isnull=False, model="", step__isnull=True)
                | models.Q(~models.Q(model=""), step__isnull=False, pool="", replicas__isnull=True),
                name="override_of_pool_or_ladder",
            ),
        ]

    def __str__(self) -> str:
        count = TEXT.counted(self.replicas or 0, "replica")
        return f"{self.pool}: {count}" if self.pool else f"{self.model}: step {self.step}"

    def owned(self) -> Owned:
        return replace(owning_teams.of_subject(self.pool, self.model), author=self.author)

    def clean(self) -> None:
        super().clean()
        if bool(self.pool) == bool(self.model):
            raise ValidationError(
                {"pool": "give either a pool and its replicas, or a model and the step of its ladder"}
            )
        if self.pool:
            self._clean_pool()
        else:
            self._clean_ladder()

    def _clean_pool(self) -> None:
        _known("pool", self.pool, "pool", Pool.objects.values_list("name", flat=True))
        if self.replicas is None:
            raise ValidationError({"replicas": f"replicas is missing: say how many pool {self.pool!r} is to have"})
        if self.replicas > MAX_REPLICAS:
            raise ValidationError({"replicas": f"replicas={self.replicas} is more than {MAX_REPLICAS}: choose fewer"})
        if self.step is not None or self.tier:
            raise ValidationError({"step": "a ladder's step belongs to a model: leave step and tier empty for a pool"})

    def _clean_ladder(self) -> None:
        _known("model", self.model, "model", LLMModel.objects.values_list("name", flat=True))
        if self.tier:
            _known("tier", self.tier, "tier", Tier.objects.values_list("name", flat=True))
        if self.step is None:
            raise ValidationError(
                {"step": f"step is missing: say which step of the ladder {self.model!r} is on; 0 is none"}
            )
        if self.replicas is not None:
            raise ValidationError({"replicas": "replicas belong to a pool: leave them empty for a model's ladder"})
        self._clean_step(self.step)

    def _clean_step(self, step: int) -> None:
        """The ladder in force has the step and the tier."""
        active = PolicyRevision.objects.filter(kind=PolicyRevision.Kind.DEGRADATION, state=PolicyRevision.State.ACTIVE)
        policies = (document.read_single(revision.text)[0] for revision in active)
        ladders = (policy.spec for policy in policies if isinstance(policy, Degradation))
        ladder = next((ladder for ladder in ladders if ladder.model == self.model), None)
        if ladder is None:
            raise ValidationError(
                {"model": f"model={self.model!r} has no ladder in force: activate a policy of kind Degradation first"}
            )
        if step > len(ladder.steps):
            raise ValidationError(
                {"step": f"step={step} is beyond the ladder of {self.model!r}: choose 0 to {len(ladder.steps)}"}
            )
        if self.tier and self.tier not in ladder.tiers:
            raise ValidationError(
                {
                    "tier": f"tier={self.tier!r} is not on the ladder of {self.model!r}: "
                    f"use one of {', '.join(ladder.tiers)}, or leave it empty"
                }
            )


def _known(field: str, value: str, noun: str, names: "models.QuerySet[Any, str]") -> None:
    if value not in names:
        listed = ", ".join(list(names)[:10]) or "none yet"
        raise ValidationError({field: f"{field}={value!r} is no {noun}: use one of {listed}"})
