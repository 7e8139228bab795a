"""Who may ask, with which precedence, and how long each stage may take."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.core.issued import Issued
from controlplane.fleet.models.named import Named
from controlplane.fleet.models.serving import LLMModel, Region, Team
from controlplane.fleet.validators import validate_name
from inference.contract import snapshot
from inference.contract.snapshot import key_digest

KEY_PREFIX = "weir_key_"


class Tier(Named):
    """Class of traffic."""

    name = models.CharField(max_length=63, unique=True, validators=[validate_name])
    priority = models.PositiveSmallIntegerField(
        default=2,
        validators=[MinValueValidator(1), MaxValueValidator(9)],
        help_text="1 is served first, within its share. Each step counts eight times as much in shares.",
    )
    requests_per_minute = models.PositiveIntegerField(
        default=0, help_text="Limit of each tenant in any minute, over all gateways; 0 is none."
    )
    tokens_per_minute = models.PositiveIntegerField(
        default=0,
        help_text="Limit of each tenant in any minute, over all gateways, of prompts and answers together; 0 is none. A "
        "request is let in while a token is left.",
    )

    weight = models.PositiveIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(10_000)],
        help_text="Its share of a pool's work while requests of several tiers wait, beside tiers of the same priority.",
    )
    max_in_flight = models.PositiveIntegerField(
        default=0, help_text="Requests in flight of each tenant, over all gateways; 0 is no limit."
    )
    reserved_percent = models.PositiveSmallIntegerField(
        "reserved places, %",
        default=0,
        validators=[MaxValueValidator(50)],
        help_text="Of a pool's places, rounded up: worse tiers leave so many free, so that a request of this tier need not wait for "
        "the end of one of theirs. 0 reserves none.",
    )

    class Meta:
        ordering = ["priority", "name"]


class Tenant(Named):
    """An application or a customer: who holds keys."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    tier = models.ForeignKey(Tier, on_delete=models.PROTECT, related_name="tenants")
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="tenants",
        help_text="Its owners make and end the tenant's keys, and cancel its batches. Empty: administrators do.",
    )
    enabled = models.BooleanField(default=True, help_text="A disabled tenant's keys are refused.")
    token_tiers = models.ManyToManyField(
        Tier,
        blank=True,
        related_name="token_tenants",
        verbose_name="tiers of tokens",
        help_text="That tokens of an issuer may name for it, beside its own.",
    )
    audits_texts = models.BooleanField(
        "audit of texts",
        default=False,
        help_text="Keep a keyed hash and the size of each prompt and answer, never the text. It needs the gateways' WEIR_USER_HASH_KEY.",
    )
    retention_days = models.PositiveSmallIntegerField(
        "retention, days",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Requests and traces of earlier days are removed within an hour of midnight UTC. Empty, or longer than "
        "WEIR_RETENTION_DAYS: they are kept as long as everybody's. Counts of all tenants together stay.",
    )
    cache_purges = models.PositiveIntegerField(default=0, editable=False)


class CachePurge(models.Model):
    """How often the answers to requests with a tag, or of a model's prompt version, were purged."""

    tag = models.CharField(
        max_length=100,
        blank=True,
        validators=[validate_name],
        help_text="What clients name in x-weir-cache-tags, or the x-weir-cache-key of one answer.",
    )
    model = models.ForeignKey(LLMModel, null=True, blank=True, on_delete=models.CASCADE, related_name="version_purges")
    prompt_version = models.CharField(max_length=50, blank=True, help_text="Of the model.")
    cache_purges = models.PositiveIntegerField("purges", default=1, editable=False)

    class Meta:
        verbose_name = "purge of cached answers"
        verbose_name_plural = "purges of cached answers"
        ordering = ["tag", "model__name", "prompt_version"]
        constraints = [
            models.UniqueConstraint(
                fields=["model", "prompt_version"],
                name="cache_purge_of_version",
                violation_error_message="This prompt version was purged before: choose it in the list, and purge it again.",
            ),
            models.UniqueConstraint(
                fields=["tag"],
                condition=models.Q(model__isnull=True),
                name="cache_purge_of_tag",
                violation_error_message="This tag was purged before: choose it in the list, and purge it again.",
            ),
            models.CheckConstraint(
                condition=models.Q(tag="", model__isnull=False) & ~models.Q(prompt_version="")
                | ~models.Q(tag="") & models.Q(model__isnull=True, prompt_version=""),
                name="cache_purge_of_tag_or_version",
                violation_error_message="Enter a tag, or a model and its prompt version.",
            ),
        ]

    def __str__(self) -> str:
        return f"prompt version {self.prompt_version} of {self.model}" if self.model else f"tag {self.tag}"

    def owned(self) -> Owned:
        return self.model.owned() if self.model else Owned()


class AllowedRegion(models.Model):
    """A region where a model, or the requests of a tenant, may be served: these alone. Without any, everywhere."""

    model = models.ForeignKey(LLMModel, null=True, blank=True, on_delete=models.CASCADE, related_name="regions")
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="regions")
    region = models.ForeignKey(Region, on_delete=models.PROTECT, related_name="allowed_for")

    class Meta:
        ordering = ["region__name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(model__isnull=True) ^ models.Q(tenant__isnull=True),
                name="allowed_region_of_model_or_tenant",
            ),
            models.UniqueConstraint(fields=["model", "region"], name="allowed_region_of_model"),
            models.UniqueConstraint(fields=["tenant", "region"], name="allowed_region_of_tenant"),
        ]

    def __str__(self) -> str:
        return f"{self.model or self.tenant}: {self.region}"

    def owned(self) -> Owned:
        return self.model.owned() if self.model else Owned()


class GatewayKeyManager(models.Manager["GatewayKey"]):
    def issue(self, tenant: Tenant, name: str) -> tuple["GatewayKey", str]:
        """A new key for `tenant`, and its text, which nobody can read again."""
        key = GatewayKey(tenant=tenant, name=name)
        text = key.renew()
        key.save()
        return key, text

    def adopt(self, tenant: Tenant, name: str, text: str) -> tuple["GatewayKey", bool]:
        """The record of a key whose text is known, made if there is none; and whether it was made."""
        return self.get_or_create(
            sha256=key_digest(text), defaults={"tenant": tenant, "name": name, "prefix": GatewayKey.shown(text)}
        )


class GatewayKey(Issued):
    """An API key of the gateway."""

    BEGINS_WITH = KEY_PREFIX

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=100, help_text="What uses it, such as “web shop, production”.")
    prefix = models.CharField(max_length=32, editable=False)
    sha256 = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    enabled = models.BooleanField(default=True, help_text="A disabled key is refused within a second.")
    requests_per_minute = models.PositiveIntegerField(
        default=0, help_text="Limit of this key, below its tier's; 0 is none of its own."
    )
    tokens_per_minute = models.PositiveIntegerField(
        default=0, help_text="Limit of this key, of prompts and answers together; 0 is none of its own."
    )
    max_in_flight = models.PositiveIntegerField(
        default=0, help_text="Requests of this key in flight; 0 is no limit of its own."
    )
    usd_per_day = models.FloatField(
        "budget of a day, USD",
        default=0,
        validators=[MinValueValidator(0), MaxValueValidator(1e9)],
        help_text="What its requests may cost from midnight to midnight (UTC); 0 is no limit. With a budget it may use models alone whose "
        "pools all have prices.",
    )
    usd_per_month = models.FloatField(
        "budget of a month, USD",
        default=0,
        validators=[MinValueValidator(0), MaxValueValidator(1e9)],
        help_text="The same from the first of a month (UTC).",
    )
    only_models = models.ManyToManyField(
        LLMModel,
        blank=True,
        related_name="keys",
        help_text="The only models that it may use and list; none chosen: all.",
    )
    expires_at = models.DateTimeField(null=True, blank=True, help_text="From then on it is refused; empty: never.")
    names_region = models.BooleanField(
        default=False,
        help_text="Its header x-weir-region says where a request comes from, for routing rules and demand; else the gateway's region.",
    )

    objects = GatewayKeyManager()

    class Meta:
        ordering = ["tenant__name", "name"]

    def owned(self) -> Owned:
        return Owned.by(self.tenant.team.name if self.tenant.team else None)

    @property
    def has_settings(self) -> bool:
        """Whether it has anything of its own."""
        limits = self.requests_per_minute or self.tokens_per_minute or self.max_in_flight
        return bool(
            limits
            or self.usd_per_day
            or self.usd_per_month
            or self.names_region
            or self.expires_at
            or self.only_models.all()
        )


def _timeout(default_ms: int, text: str) -> "models.PositiveIntegerField[int, int]":
    return models.PositiveIntegerField(default=default_ms, validators=[MinValueValidator(1)], help_text=f"{text}, ms.")


_DEFAULT = snapshot.StageTimeouts()


class StageTimeouts(models.Model):
    """How long each stage of a request may take before the gateway fails fast and names it. One row."""

    ONLY = 1

    cache_ms = _timeout(_DEFAULT.cache_ms, "The lookup; over it, the cache is skipped")
    tokenizer_ms = _timeout(_DEFAULT.tokenizer_ms, "Counting the prompt's tokens")
    queue_ms = _timeout(_DEFAULT.queue_ms, "Waiting for a place in flight")
    connect_ms = _timeout(_DEFAULT.connect_ms, "Connecting to a model server, with TLS")
    first_token_ms = _timeout(_DEFAULT.first_token_ms, "From the model's call to its first token")
    next_token_ms = _timeout(_DEFAULT.next_token_ms, "From each token of the model to the next")
    model_ms = _timeout(_DEFAULT.model_ms, "The model's whole answer")
    egress_ms = _timeout(_DEFAULT.egress_ms, "A client that does not read")

    class Meta:
        verbose_name = verbose_name_plural = "stage timeouts"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_row_of_stage_timeouts")]

    def __str__(self) -> str:
        return "Stage timeouts"

    def save(self, *args: object, **kwargs: object) -> None:
        self.pk = self.ONLY
        super().save(*args, **kwargs)  # type: ignore[arg-type]
