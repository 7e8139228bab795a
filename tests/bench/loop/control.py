"""A control plane of its own for the benchmarks of the loop."""

import os
import sys
from pathlib import Path


def django_in(folder: Path) -> None:
    """Django with an empty database in `folder`."""
    kubeconfigs = folder / "kubeconfigs"
    kubeconfigs.mkdir()
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "WEIR_HOME": str(folder / "home"),
        "WEIR_KUBECONFIGS_DIR": str(kubeconfigs),
        "WEIR_LOG_LEVEL": "warning",
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    sys.stdout.flush()


def scaling(name: str, **spec: object) -> None:
    """An active policy for the pool of this name."""
    from controlplane.policy.models import PolicyRevision

    body = "\n".join(f"  {key}: {value}" for key, value in {"pool": name, **spec}.items())
    text = f"apiVersion: weir/v1\nkind: Scaling\nmetadata:\n  name: {name}\nspec:\n{body}\n"
    PolicyRevision.objects.create(name=name, kind="Scaling", number=1, text=text, state="active", author="bench")


def ladder(model: str, tiers: tuple[str, ...]) -> None:
    """An active ladder of three steps for the model of this name."""
    from controlplane.policy.models import PolicyRevision

    text = f"""\
apiVersion: weir/v1
kind: Degradation
metadata:
  name: {model}-ladder
spec:
  model: {model}
  tiers: [{", ".join(tiers)}]
  steps:
    - name: shorter
      enter: burn_rate_fast > 10.0
      exit: burn_rate_fast < 1.0
      max_output_tokens: 256
    - name: cached
      enter: burn_rate_fast > 14.0
      exit: burn_rate_fast < 2.0
      cached_only: true
    - name: shed
      enter: queue_delay_s > 5.0
      exit: queue_delay_s < 1.0
      shed: {{retry_after_s: 20}}
"""
    PolicyRevision.objects.create(
        name=f"{model}-ladder", kind="Degradation", number=1, text=text, state="active", author="bench"
    )


def pools(cluster: str, kind: str, names: list[str], kubeconfig: str = "", namespace: str = "weir") -> None:
    """A model, a variant and a pool of each name, in one cluster."""
    from controlplane.fleet.models import Cluster, LLMModel, Pool, Region, Variant

    region, _ = Region.objects.get_or_create(name="bench")
    row = Cluster.objects.create(name=cluster, kind=kind, kubeconfig=kubeconfig, namespace=namespace)
    models = LLMModel.objects.bulk_create([LLMModel(name=name) for name in names])
    variants = Variant.objects.bulk_create([Variant(name=model.name, model=model) for model in models])
    Pool.objects.bulk_create(
        [
            Pool(name=each.name, variant=each, region=region, cluster=row, protocol="openai", model_name=each.name)
            for each in variants
        ]
    )
