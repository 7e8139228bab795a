"""Where replicas run."""

from django.core.exceptions import ValidationError
from django.db import models

from controlplane.fleet.models.named import Named
from controlplane.fleet.validators import validate_dns_label, validate_file_name, validate_name


class Cluster(Named):
    """A place where replicas run and can be counted: a Kubernetes cluster's namespace, or the processes of one machine."""

    class Kind(models.TextChoices):
        KUBERNETES = "kubernetes", "Kubernetes"
        LOCAL = "local", "Processes of this machine"

    name = models.CharField(max_length=63, unique=True, validators=[validate_name])
    kind = models.CharField(max_length=20, choices=Kind.choices, default=Kind.KUBERNETES)
    kubeconfig = models.CharField(
        max_length=100,
        default="",
        blank=True,
        validators=[validate_file_name],
        help_text="The name of a file in WEIR_KUBECONFIGS_DIR; empty is the cluster that Weir itself runs in.",
    )
    namespace = models.CharField(
        max_length=63,
        default="weir",
        validators=[validate_dns_label],
        help_text="Of the pools' Deployments. Weir needs no rights outside of it.",
    )
    enabled = models.BooleanField(
        default=True, help_text="A disabled cluster is neither watched nor changed; its replicas stay as they are."
    )

    def clean(self) -> None:
        others = Cluster.objects.filter(kind=self.kind, kubeconfig=self.kubeconfig, namespace=self.namespace)
        if self.kind == self.Kind.LOCAL:
            others = Cluster.objects.filter(kind=self.kind)
        twin = others.exclude(pk=self.pk).first()
        if twin is not None:
            raise ValidationError(
                {"namespace": f"Cluster “{twin.name}” is this namespace of this cluster already: use that one."}
            )
