"""A small fleet for policies, people of its team, and texts."""

from django.contrib.auth.models import User

from controlplane.fleet.models import LLMModel, Pool, Region, Team, Tenant, Tier, Variant
from tests.support.past_the_audit import unrecorded
from tests.support.web.people import member


@unrecorded()
def small_fleet(*, requires_approval: bool = False) -> Team:
    """Model `chat` of team `serving`, in pools `chat-eu` and `chat-us`, and a pool `chat-mini` of a smaller variant."""
    team, _ = Team.objects.update_or_create(name="serving", defaults={"requires_approval": requires_approval})
    model = LLMModel.objects.create(name="chat", team=team)
    for pool, variant in (("chat-eu", "chat-fp16"), ("chat-us", "chat-fp16"), ("chat-mini", "chat-int8")):
        region, _ = Region.objects.get_or_create(name="us" if pool == "chat-us" else "eu")
        row, _ = Variant.objects.get_or_create(name=variant, model=model)
        Pool.objects.create(name=pool, variant=row, region=region, model_name="chat")
    for priority, name in enumerate(("premium", "standard", "batch"), start=1):
        tier = Tier.objects.create(name=name, priority=priority)
        Tenant.objects.create(name=f"{name}-shop", tier=tier)
    return team


def other_teams_pool() -> None:
    """Pool `search-eu` of a model of team `search`."""
    team, _ = Team.objects.get_or_create(name="search")
    variant = Variant.objects.create(name="search-fp16", model=LLMModel.objects.create(name="search", team=team))
    Pool.objects.create(name="search-eu", variant=variant, region=Region.objects.get(name="eu"), model_name="search")


def author(name: str = "ann") -> User:
    return member(name, "owner")


def approver(name: str = "abe") -> User:
    return member(name, "approver")


def operator(name: str = "oto") -> User:
    return member(name, "owner")


def scaling(most: int = 4, name: str = "chat-replicas", pool: str = "chat-eu", more: str = "") -> str:
    return f"""\
apiVersion: weir/v1
kind: Scaling
metadata:
  name: {name}
spec:
  pool: {pool}
  min: 1
  max: {most}   # what the region has room for
{more}"""


def routing(name: str = "chat-routes") -> str:
    return f"""\
apiVersion: weir/v1
kind: Routing
metadata:
  name: {name}
spec:
  model: chat
  rules:
    - name: long
      when: {{min_prompt_tokens: 8192, tiers: [premium]}}
      routes: {{chat-us: 100}}
      fallbacks: [chat-eu]
"""


def ladder(name: str = "chat-ladder") -> str:
    return f"""\
apiVersion: weir/v1
kind: Degradation
metadata:
  name: {name}
spec:
  model: chat
  tiers: [batch, standard]
  steps:
    - name: shorter
      enter: queue_delay_s > 2.0
      exit: queue_delay_s < 0.5
      max_output_tokens: 128
    - name: shed
      enter: queue_delay_s > 5.0
      exit: queue_delay_s < 1.0
      shed: {{retry_after_s: 10}}
"""
