"""The served part of the fleet: team → model → variant → pool (in a region) → replica."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.fleet.validators import validate_address, validate_model_name, validate_name, validate_tokenizer


class Team(models.Model):
    """Owns models, and is on call for them."""

    name = models.CharField(max_length=100, unique=True)
    contact = models.CharField(max_length=200, blank=True, help_text="Channel or address, such as #chat-oncall.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Region(models.Model):
    name = models.CharField(max_length=63, unique=True, validators=[validate_name])

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class LLMModel(models.Model):
    """A model, by the name that clients send."""

    class CacheMode(models.TextChoices):
        DETERMINISTIC = "deterministic", "Deterministic requests (temperature 0 or a fixed seed)"
        ALWAYS = "always", "Every request"
        NEVER = "never", "Nothing"

    class CacheScope(models.TextChoices):
        TENANT = "tenant", "Each tenant its own"
        ALL = "all", "All tenants share"

    name = models.CharField(
        max_length=200, unique=True, validators=[validate_model_name], help_text="As clients send it."
    )
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="models")
    enabled = models.BooleanField(default=True, help_text="A disabled model answers 404.")
    tokenizer = models.CharField(
        max_length=100,
        default="tekken",
        validators=[validate_tokenizer],
        help_text="Counts prompts' tokens: the gateway's name of it.",
    )
    max_prompt_tokens = models.PositiveIntegerField(default=32_768, validators=[MinValueValidator(1)])
    max_output_tokens = models.PositiveIntegerField(default=4_096, validators=[MinValueValidator(1)])
    prompt_version = models.CharField(
        max_length=50, default="1", help_text="Part of the cache key: change it to start with an empty cache."
    )
    cache_mode = models.CharField(max_length=20, choices=CacheMode.choices, default=CacheMode.DETERMINISTIC)
    cache_ttl_s = models.PositiveIntegerField("cache time to live, s", default=3_600, validators=[MinValueValidator(1)])
    cache_scope = models.CharField(
        max_length=10,
        choices=CacheScope.choices,
        default=CacheScope.TENANT,
        help_text="Who meets an answer again. Sharing saves inferences, and lets a tenant learn from an answer's speed "
        "what others have asked: share only what is no secret between tenants.",
    )
    cache_coalesce = models.BooleanField(
        "coalesce", default=True, help_text="Identical requests in flight at the same moment cost one inference."
    )
    usd_per_1k_prompt_tokens = models.FloatField(
        "USD per 1,000 prompt tokens", default=0, validators=[MinValueValidator(0)]
    )
    usd_per_1k_output_tokens = models.FloatField(
        "USD per 1,000 output tokens", default=0, validators=[MinValueValidator(0)]
    )

    class Meta:
        verbose_name = "model"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Variant(models.Model):
    """One way of serving a model: a size, a precision, edge or central."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    model = models.ForeignKey(LLMModel, on_delete=models.CASCADE, related_name="variants")
    description = models.CharField(max_length=200, blank=True, help_text="Such as “8B, int8, edge”.")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """The replicas of a variant in one region."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    variant = models.ForeignKey(Variant, on_delete=models.CASCADE, related_name="pools")
    region = models.ForeignKey(Region, on_delete=models.PROTECT, related_name="pools")
    enabled = models.BooleanField(default=True, help_text="A disabled pool gets no requests.")
    weight = models.PositiveIntegerField(
        default=100,
        validators=[MinValueValidator(1), MaxValueValidator(10_000)],
        help_text="Its share of the model's requests, against the other pools' weights. To stop it, disable the pool.",
    )
    model_name = models.CharField(max_length=200, help_text="What Triton calls the model.")
    model_version = models.CharField(
        max_length=50, default="1", blank=True, help_text="Triton's version; empty takes its default."
    )
    max_concurrency = models.PositiveIntegerField(
        default=64,
        validators=[MinValueValidator(1)],
        help_text="Requests in flight over all replicas, per gateway process.",
    )
    max_queue = models.PositiveIntegerField(
        default=256, help_text="Requests waiting for one of those places; more get 429."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Replica(models.Model):
    """One server of a pool."""

    class ManagedBy(models.TextChoices):
        OWNER = "owner", "Owner"
        LAUNCHER = "launcher", "Launcher (rewritten at each start)"

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="replicas")
    name = models.CharField(max_length=100, validators=[validate_name])
    grpc = models.CharField("gRPC address", max_length=255, validators=[validate_address])
    http = models.CharField(
        "HTTP address", max_length=255, blank=True, validators=[validate_address], help_text="Health and statistics."
    )
    metrics = models.CharField("metrics address", max_length=255, blank=True, validators=[validate_address])
    enabled = models.BooleanField(default=True, help_text="A disabled replica gets no new requests.")
    managed_by = models.CharField(max_length=20, choices=ManagedBy.choices, default=ManagedBy.OWNER, editable=False)

    class Meta:
        ordering = ["pool__name", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "name"],
                name="replica_name_in_pool",
                violation_error_message="The pool has a replica of this name: choose another.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.pool} · {self.name}"

    def clean(self) -> None:
        twin = Replica.objects.filter(pool_id=self.pool_id, grpc=self.grpc).exclude(pk=self.pk).first()
        if twin is not None:
            raise ValidationError(
                {"grpc": f"“{self.grpc}” is already replica “{twin.name}” of this pool: use another address."}
            )
