"""What gateways send to a new replica of a pool before it gets users' requests."""

from django.db import models

from controlplane.fleet.validators import warm_up_bounds
from inference.contract.snapshot import WarmUp

_WARM_UP = WarmUp()


class WarmUpFields(models.Model):
    """Of a pool."""

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

    class Meta:
        abstract = True
