"""A text to begin with for each kind of policy, with names of this fleet."""

from collections.abc import Mapping

from controlplane.fleet.models import LLMModel, Pool, Tier

SCALING = """\
apiVersion: weir/v1
kind: Scaling
metadata:
  name: {pool}-replicas
spec:
  pool: {pool}
  min: 1
  max: 4
  warm_floor: 1                 # always warm; unlike min it gives way to a budget
  # objective: chat-ttft        # the objective at which a replica's capacity is measured
  forecast: auto
  reactive:
    utilisation: 0.8            # of a replica's measured capacity
    queue_delay_s: 0.5
  scale_down:
    stabilisation_s: 300        # only the highest count of so many seconds is gone down to
    max_step: 1
"""
ROUTING = """\
apiVersion: weir/v1
kind: Routing
metadata:
  name: {model}-routes
spec:
  model: {model}
  rules:                        # the first that matches a request decides
    - name: long-prompts
      when: {{min_prompt_tokens: 8192}}
      routes: {{{pool}: 100}}
"""
DEGRADATION = """\
apiVersion: weir/v1
kind: Degradation
metadata:
  name: {model}-ladder
spec:
  model: {model}
  tiers: [{tier}]               # the least important first
  steps:
    - name: shorter
      enter: queue_delay_s > 2.0 || burn_rate_fast > 10.0
      exit: queue_delay_s < 0.5 && burn_rate_fast < 2.0
      max_output_tokens: 256
      min_stay_s: 60
    - name: shed
      enter: queue_delay_s > 5.0
      exit: queue_delay_s < 1.0
      shed: {{retry_after_s: 10}}
"""
CANARY = """\
apiVersion: weir/v1
kind: Canary
metadata:
  name: {model}-canary
spec:
  model: {model}
  baseline: {pool}
  candidate: {other}
  steps: [5, 25, 50]            # percent of the requests
  on_fail: roll_back
  on_equal: promote
"""
SKELETONS: Mapping[str, str] = {"Scaling": SCALING, "Routing": ROUTING, "Degradation": DEGRADATION, "Canary": CANARY}


def skeleton(kind: str) -> str:
    """`kind` is one of SKELETONS."""
    pool = Pool.objects.select_related("variant__model").order_by("name").first()
    models = LLMModel.objects.order_by("name").values_list("name", flat=True)
    other = Pool.objects.exclude(pk=pool.pk).order_by("name").first() if pool else None
    return SKELETONS[kind].format(
        pool=pool.name if pool else "chat-pool",
        model=(pool.variant.model.name if pool else models.first()) or "chat",
        other=other.name if other else "the-new-pool",
        tier=Tier.objects.order_by("-priority").values_list("name", flat=True).first() or "batch",
    )
