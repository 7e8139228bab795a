"""The served part of the fleet: team → model → variant → pool (in a region) → replica."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.accounts.core.rule import Owned
from controlplane.fleet import choices
from controlplane.fleet.models.calls import ServerCalls
from controlplane.fleet.models.cluster import Cluster
from controlplane.fleet.models.failures import FailureRules
from controlplane.fleet.models.named import Named
from controlplane.fleet.models.semantic_cache import SimilarRequests
from controlplane.fleet.validators import (
    is_dns_name,
    validate_address,
    validate_base_url,
    validate_cache_ttls,
    validate_dns_name,
    validate_image_hosts,
    validate_mapping,
    validate_metrics,
    validate_model_name,
    validate_name,
    validate_tokenizer,
    warm_up_bounds,
)
from inference.contract.snapshot import WarmUp

_WARM_UP = WarmUp()


class Team(Named):
    """Owns models, and is on call for them."""

    name = models.CharField(max_length=100, unique=True)
    contact = models.CharField(max_length=200, blank=True, help_text="Channel or address, such as #chat-oncall.")
    requires_approval = models.BooleanField(
        "changes need approval",
        default=False,
        help_text="Of its policies, of files over REST and of the way back: another person than the author approves each first.",
    )
    overrides_need_approval = models.BooleanField(
        default=False,
        help_text="Another person approves an override of its pools and models before it counts, unless an administrator makes it. "
        "A pause counts at once.",
    )
    requires_second_factor = models.BooleanField(
        "people need a second factor",
        default=False,
        help_text="Whoever has a role in it here adds one at the next page; who logs in through a provider is its matter.",
    )


class Region(Named):
    name = models.CharField(max_length=63, unique=True, validators=[validate_name])


class LLMModel(FailureRules, SimilarRequests, Named):
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
        help_text="Counts prompts' tokens: “tekken”, “server” (the server's own count), “estimate” (4 bytes a token), or the "
        "name of a folder in the gateway's WEIR_TOKENIZERS_DIR.",
    )
    template = models.CharField(
        "chat template",
        max_length=20,
        choices=choices.templates,
        default="auto",
        help_text="Lays out messages for servers that take a prompt's text. Servers with OpenAI's API lay them out themselves.",
    )
    tool_parser = models.CharField(
        max_length=30,
        choices=choices.tool_parsers,
        default="",
        blank=True,
        help_text="Reads tool calls in the text of servers that answer text alone.",
    )
    reasoning_parser = models.CharField(
        max_length=30,
        choices=choices.reasoning_parsers,
        default="",
        blank=True,
        help_text="Reads reasoning in the text of servers that answer text alone.",
    )
    reasoning_field = models.CharField(
        max_length=30,
        choices=choices.reasoning_fields,
        default="reasoning_content",
        help_text="The name under which clients get reasoning, whatever the server calls it.",
    )
    unknown_parameters = models.CharField(
        max_length=20,
        choices=choices.unknown_parameters,
        default="pass",
        help_text="What happens to a parameter of a request that the model's servers do not list (docs/gateway.md).",
    )
    max_context_tokens = models.PositiveIntegerField(
        default=0, help_text="Prompt and answer together; 0 is what the server says."
    )
    max_prompt_tokens = models.PositiveIntegerField(default=32_768, validators=[MinValueValidator(1)])
    max_output_tokens = models.PositiveIntegerField(default=4_096, validators=[MinValueValidator(1)])
    prompt_version = models.CharField(
        max_length=50, default="1", help_text="Part of the cache key: change it to start with an empty cache."
    )
    cache_purges = models.PositiveIntegerField(default=0, editable=False)
    cache_mode = models.CharField(max_length=20, choices=CacheMode.choices, default=CacheMode.DETERMINISTIC)
    cache_ttl_s = models.PositiveIntegerField("cache time to live, s", default=3_600, validators=[MinValueValidator(1)])
    cache_ttls_s = models.JSONField(
        "times to live by operation and tag, s",
        default=dict,
        blank=True,
        validators=[validate_cache_ttls],
        help_text='Such as {"embeddings": 604800, "tag:weather": 30}; of several that a request matches the shortest counts.',
    )
    cache_stales_s = models.JSONField(
        "stale answers by operation and tag, s",
        default=dict,
        blank=True,
        validators=[validate_cache_ttls],
        help_text='Such as {"chat": 60}: for so long after its time to live an answer is still given, while one request makes a new one.',
    )
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
    image_hosts = models.JSONField(
        "hosts of images",
        default=list,
        blank=True,
        validators=[validate_image_hosts],
        help_text='Where images of requests may be, such as ["images.example.com", "*.cdn.example.com"]; empty: only such that are in '
        "the request itself. The model's servers fetch them.",
    )

    class Meta(Named.Meta):
        verbose_name = "model"

    def owned(self) -> Owned:
        teams = [self.team, *(model.team for model in self.names_anew())]
        return Owned.by(*(team.name if team else None for team in teams))


class Variant(Named):
    """One way of serving a model: a size, a precision, edge or central."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    model = models.ForeignKey(LLMModel, on_delete=models.CASCADE, related_name="variants")
    description = models.CharField(max_length=200, blank=True, help_text="Such as “8B, int8, edge”.")

    def owned(self) -> Owned:
        return self.model.owned()


class Pool(Named, ServerCalls):
    """The replicas of a variant in one region."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    variant = models.ForeignKey(Variant, on_delete=models.CASCADE, related_name="pools")
    region = models.ForeignKey(Region, on_delete=models.PROTECT, related_name="pools")
    cluster = models.ForeignKey(
        Cluster,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="pools",
        help_text="Where its replicas run: they are then discovered, and a policy may scale them. Empty: they are entered here.",
    )
    workload = models.CharField(
        max_length=253,
        default="",
        blank=True,
        validators=[validate_dns_name],
        help_text="The name of its Deployment; empty is the pool's own name.",
    )
    enabled = models.BooleanField(default=True, help_text="A disabled pool gets no requests.")
    weight = models.PositiveIntegerField(
        default=100,
        validators=[MaxValueValidator(10_000)],
        help_text="Its share of the model's requests, against the other pools' weights. With 0 it gets none while another pool serves.",
    )
    protocol = models.CharField(
        max_length=20, choices=choices.protocols, default="triton", help_text="What its servers speak."
    )
    server = models.CharField(
        max_length=20,
        choices=choices.servers,
        default="auto",
        help_text="Which server speaks OpenAI's API. The overview shows what the gateway has found out.",
    )
    signature = models.CharField(
        max_length=30,
        choices=choices.signatures,
        default="weir",
        help_text="The tensors of the model on Triton. The gateway can find them out from the model's metadata.",
    )
    mapping = models.JSONField(
        null=True,
        blank=True,
        validators=[validate_mapping],
        help_text='For other tensors: {"inputs": [{"name": "text_input", "datatype": "BYTES", "value": "prompt"}, …], '
        '"outputs": [{"name": "text_output", "datatype": "BYTES", "value": "text"}, …]}.',
    )
    model_name = models.CharField(max_length=200, help_text="What its servers call the model.")
    model_version = models.CharField(
        max_length=50, default="1", blank=True, help_text="Triton's version; empty takes its default."
    )
    max_output_default = models.PositiveIntegerField(
        "output tokens by default",
        default=0,
        help_text="Where a client names none; 0 leaves it to the server, or to the model's limit where the server needs a number.",
    )
    max_concurrency = models.PositiveIntegerField(
        default=64,
        validators=[MinValueValidator(1)],
        help_text="Requests in flight over all replicas, per gateway process.",
    )
    replica_concurrency = models.PositiveIntegerField(
        default=0,
        help_text="Requests in flight at one replica, per gateway process: what it works on at a time, so that others wait in the "
        "gateway, where the better tier is first. 0 is no limit.",
    )
    max_queue = models.PositiveIntegerField(
        default=256, help_text="Requests waiting for one of those places; more get 429."
    )
    warm_up_requests = models.PositiveSmallIntegerField(
        "warm-up requests",
        default=_WARM_UP.requests,
        validators=warm_up_bounds("requests"),
        help_text="That each gateway sends to a new replica, and has answered, before the replica gets users' requests, unless "
        "no other replica is left. 0 sends none.",
    )
    warm_up_prompt = models.CharField(
        "prompt",
        max_length=500,
        default=_WARM_UP.prompt,
        help_text="Also of the warm-up that a rendered Triton pool has.",
    )
    warm_up_tokens = models.PositiveSmallIntegerField(
        "output tokens", default=_WARM_UP.max_tokens, validators=warm_up_bounds("max_tokens")
    )
    warm_up_within_s = models.PositiveSmallIntegerField(
        "time limit, s",
        default=_WARM_UP.within_s,
        validators=warm_up_bounds("within_s"),
        help_text="From when the replica is ready. After it the replica gets users' requests all the same.",
    )

    def owned(self) -> Owned:
        return self.variant.owned()

    @property
    def deployment(self) -> str:
        """The name of its Deployment."""
        return self.workload or self.name

    def clean(self) -> None:
        if self.protocol == "triton" and self.signature == "mapping" and self.mapping is None:
            raise ValidationError({"mapping": "The signature needs a mapping: name the model's tensors."})
        if self.cluster_id is None:
            return
        if self.cluster and self.cluster.kind == Cluster.Kind.KUBERNETES and not is_dns_name(self.deployment):
            raise ValidationError(
                {"workload": f"No Deployment can be called “{self.deployment}”: name the one that runs this pool."}
            )
        others = Pool.objects.filter(cluster_id=self.cluster_id).exclude(pk=self.pk)
        twin = next((pool for pool in others if pool.deployment == self.deployment), None)
        if twin is not None:
            raise ValidationError(
                {"workload": f"Deployment “{self.deployment}” is pool “{twin.name}” already: name another one."}
            )


class Fallback(models.Model):
    """A pool that serves a model while none of the model's own pools can."""

    model = models.ForeignKey(LLMModel, on_delete=models.CASCADE, related_name="fallbacks")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="fallback_of")
    position = models.PositiveSmallIntegerField(default=1, help_text="1 is tried first.")

    class Meta:
        ordering = ["model__name", "position", "pool__name"]
        constraints = [
            models.UniqueConstraint(
                fields=["model", "pool"],
                name="fallback_pool_of_model",
                violation_error_message="The pool is a fallback of this model already: remove one of the two.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.model} → {self.pool}"

    def owned(self) -> Owned:
        """It sends the model's requests to the pool: both teams' matter."""
        return self.model.owned() | self.pool.owned()


class Replica(models.Model):
    """One server of a pool."""

    class ManagedBy(models.TextChoices):
        OWNER = "owner", "Owner"
        LAUNCHER = "launcher", "Launcher (rewritten at each start)"
        CLUSTER = "cluster", "Cluster (discovered, and kept up to date)"

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="replicas")
    name = models.CharField(max_length=100, validators=[validate_name])
    url = models.CharField(
        "URL",
        max_length=500,
        default="",
        blank=True,
        validators=[validate_base_url],
        help_text="Of a server with OpenAI's API, such as http://10.0.0.7:8000/v1.",
    )
    grpc = models.CharField(
        "gRPC address", max_length=255, default="", blank=True, validators=[validate_address], help_text="Of a Triton."
    )
    http = models.CharField(
        "HTTP address",
        max_length=255,
        blank=True,
        validators=[validate_address],
        help_text="Of a Triton: health and statistics.",
    )
    metrics = models.CharField(
        "metrics",
        max_length=500,
        blank=True,
        validators=[validate_metrics],
        help_text="URL of its Prometheus page, or host:port. Empty: /metrics of the URL's host; none for a Triton.",
    )
    enabled = models.BooleanField(default=True, help_text="A disabled replica gets no new requests.")
    draining = models.BooleanField(
        default=False, editable=False, help_text="It gets no new requests, and ends once those in flight have."
    )
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

    def owned(self) -> Owned:
        return self.pool.owned()

    @property
    def component(self) -> str:
        """The observation's name of it."""
        return f"{self.pool.name}/{self.name}"

    def clean(self) -> None:
        pool: Pool | None = getattr(self, "pool", None)
        if pool is None:
            return
        needed = "url" if pool.protocol == "openai" else "grpc"
        address = getattr(self, needed)
        if not address:
            example = "http://10.0.0.7:8000/v1" if needed == "url" else "10.0.0.7:8001"
            raise ValidationError({needed: f"The pool's servers are reached by this: write it, such as {example}."})
        twin = Replica.objects.filter(pool_id=pool.pk, **{needed: address}).exclude(pk=self.pk).first()
        if twin is not None:
            raise ValidationError(
                {needed: f"“{address}” is already replica “{twin.name}” of this pool: use another address."}
            )
