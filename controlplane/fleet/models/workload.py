"""What a pool, a Redis or the API tier is made of, where Weir renders it for Kubernetes."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from controlplane.fleet.core.manifests import quantity, triton_config
from controlplane.fleet.models.cluster import Cluster
from controlplane.fleet.models.serving import Pool
from controlplane.fleet.validators import validate_dns_label


def validate_quantity(text: str) -> None:
    try:
        quantity.parse(text)
    except ValueError as error:
        raise ValidationError(str(error)) from None


def validate_texts(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValidationError('Write a list of texts, such as ["--max-num-seqs=64"].')


def validate_text_by_name(value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise ValidationError('Write texts by name, such as {"cloud.example/gpu": "h100"}.')


def validate_sizes(value: Any) -> None:
    whole = isinstance(value, list) and all(isinstance(each, int) and not isinstance(each, bool) for each in value)
    if not whole or any(each < 1 for each in value):
        raise ValidationError("Write a list of sizes above zero, such as [4, 8].")


class Workload(models.Model):
    """A Deployment with all that belongs to it, which `manage.py stack` renders, compares and applies."""

    class Kind(models.TextChoices):
        TRITON = "triton", "Triton"
        VLLM = "vllm", "vLLM"
        REDIS = "redis", "Redis (cache of the gateways)"
        GATEWAY = "gateway", "Gateway (API tier)"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    pool = models.OneToOneField(
        Pool,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="rendered_as",
        help_text="For Triton and vLLM: its cluster and the name of its Deployment count.",
    )
    cluster = models.ForeignKey(
        Cluster, null=True, blank=True, on_delete=models.PROTECT, related_name="workloads", help_text="For the others."
    )
    name = models.CharField(
        max_length=63,
        default="",
        blank=True,
        validators=[validate_dns_label],
        help_text="For the others: its Deployment.",
    )
    image = models.CharField(max_length=300, help_text="With a tag or digest, such as vllm/vllm-openai:v0.32.0.")
    min_replicas = models.PositiveIntegerField(
        default=2, validators=[MinValueValidator(1)], help_text="Of the API tier's autoscaler."
    )
    max_replicas = models.PositiveIntegerField(
        default=0, help_text="The same. 0 makes no autoscaler; policies scale pools."
    )
    cpu = models.CharField("CPU", max_length=20, default="2", validators=[validate_quantity])
    memory = models.CharField(max_length=20, default="16Gi", validators=[validate_quantity])
    gpus = models.PositiveSmallIntegerField("GPUs", default=0, help_text="Of each replica.")
    gpu_resource = models.CharField("GPU resource", max_length=100, default="nvidia.com/gpu")
    tolerate_gpu_taint = models.BooleanField(default=True, help_text="GPU nodes usually carry its name as a taint.")
    shared_memory = models.CharField(
        max_length=20, default="", blank=True, validators=[validate_quantity], help_text="Of /dev/shm, such as 8Gi."
    )
    node_selector = models.JSONField(default=dict, blank=True, validators=[validate_text_by_name])
    store_claim = models.CharField(
        max_length=253, default="", blank=True, help_text="The PersistentVolumeClaim with the model's files."
    )
    store_path = models.CharField(max_length=500, default="", blank=True, help_text="Their folder on it.")
    model_source = models.CharField(
        max_length=500, default="", blank=True, help_text="For a vLLM without a claim: the model's name on the hub."
    )
    backend = models.CharField(
        max_length=50,
        default="",
        blank=True,
        help_text="Triton's backend, such as python or vllm. Empty where the store is a whole repository with its configurations.",
    )
    instances = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1)])
    max_batch_size = models.PositiveIntegerField(default=0, help_text="0: the backend batches, not Triton.")
    preferred_batch_sizes = models.JSONField(default=list, blank=True, validators=[validate_sizes])
    max_queue_delay_us = models.PositiveIntegerField("longest wait for a batch, µs", default=1_000)
    priority_levels = models.PositiveSmallIntegerField(default=3)
    default_priority = models.PositiveSmallIntegerField(default=2)
    max_queue_size = models.PositiveIntegerField(default=0, help_text="Of each priority in Triton; 0 is no limit.")
    queue_timeout_us = models.PositiveBigIntegerField(
        "longest wait in the queue, µs", default=0, help_text="0 is none."
    )
    model_parameters = models.JSONField(default=dict, blank=True, validators=[validate_text_by_name])
    arguments = models.JSONField(default=list, blank=True, validators=[validate_texts])
    environment = models.JSONField(default=dict, blank=True, validators=[validate_text_by_name])
    secret = models.CharField(
        max_length=253, default="", blank=True, help_text="A Secret whose keys become environment variables."
    )
    start_s = models.PositiveIntegerField(
        "longest start, s", default=900, validators=[MinValueValidator(10), MaxValueValidator(14_400)]
    )
    drain_s = models.PositiveIntegerField(
        "longest drain, s",
        default=300,
        validators=[MinValueValidator(30), MaxValueValidator(7_200)],
        help_text="How long requests in flight may take after a replica is told to end.",
    )

    class Meta:
        ordering = ["kind", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "name"], condition=~models.Q(name=""), name="workload_of_cluster"
            )
        ]

    def __str__(self) -> str:
        return self.deployment

    @property
    def deployment(self) -> str:
        return self.pool.deployment if self.pool else self.name

    @property
    def place(self) -> Cluster | None:
        return self.pool.cluster if self.pool else self.cluster

    def clean(self) -> None:
        errors: dict[str, str] = {}
        if self.kind in (self.Kind.TRITON, self.Kind.VLLM):
            self._clean_pool(errors)
        else:
            if self.pool_id is not None:
                errors["pool"] = "Only Triton and vLLM serve a pool: leave it empty, and enter a cluster and a name."
            if self.cluster_id is None:
                errors["cluster"] = "Say in which cluster it runs."
            if not self.name:
                errors["name"] = "Give its Deployment a name, such as weir-gateway."
        if ":" not in self.image.rpartition("/")[2] and "@" not in self.image:
            errors["image"] = (
                f"“{self.image}” has no tag: what runs would change by itself. Add one, such as :25.08-py3."
            )
        if self.max_replicas and self.kind != self.Kind.GATEWAY:
            errors["max_replicas"] = "Only the API tier has an autoscaler: pools are scaled by policies. Leave it 0."
        elif self.max_replicas and self.max_replicas < self.min_replicas:
            errors["max_replicas"] = f"It is below the least number of replicas, {self.min_replicas}: raise it."
        if errors:
            raise ValidationError(errors)

    def _clean_pool(self, errors: dict[str, str]) -> None:
        if self.pool is None:
            errors["pool"] = "Say which pool its replicas are."
            return
        if self.pool.cluster is None or self.pool.cluster.kind != Cluster.Kind.KUBERNETES:
            errors["pool"] = f"Pool “{self.pool}” runs in no Kubernetes cluster: give it one first."
        if (self.kind == self.Kind.TRITON) != (self.pool.protocol == "triton"):
            errors["kind"] = (
                f"Pool “{self.pool}” speaks {self.pool.get_protocol_display()}: choose the server that does."
            )
        if self.kind == self.Kind.TRITON:
            if not self.store_claim:
                errors["store_claim"] = "Name the PersistentVolumeClaim with the model's files."
            if self.backend and self.pool.signature not in triton_config.RENDERED:
                errors["backend"] = (
                    f"Weir writes no config.pbtxt for the signature “{self.pool.signature}”: leave this empty, and put the whole "
                    "model repository into the store."
                )
            if self.priority_levels and not 1 <= self.default_priority <= self.priority_levels:
                errors["default_priority"] = f"It has to be from 1 to {self.priority_levels}, the priority levels."
        elif not (self.store_claim or self.model_source):
            errors["model_source"] = "Name the model on the hub, or a claim with its files."
