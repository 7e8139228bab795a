"""Query parameters that choose requests."""

import time

from django.http import HttpRequest
from ninja import Field, Schema

from controlplane.api.formats import TIME, Attribute, Bucket, Cache, Instant, Name, Status, TokenBound, Unwanted
from controlplane.telemetry.query.core.question import (
    DEFAULT_FROM,
    DEFAULT_TO,
    MAX_ATTRIBUTES,
    MAX_VALUES,
    Question,
    parse,
)


class RequestFilters(Schema):
    """Which requests: a half-open range of the moments they entered, and filters. Values of one filter are alternatives."""

    from_: Instant = Field(DEFAULT_FROM, alias="from", description=TIME)
    to: Instant = Field(DEFAULT_TO, description=TIME)
    model: list[Name] = Field([], max_length=MAX_VALUES)
    variant: list[Name] = Field([], max_length=MAX_VALUES)
    pool: list[Name] = Field([], max_length=MAX_VALUES)
    replica: list[Name] = Field([], max_length=MAX_VALUES)
    region: list[Name] = Field([], max_length=MAX_VALUES)
    tier: list[Name] = Field([], max_length=MAX_VALUES)
    tenant: list[Name] = Field([], max_length=MAX_VALUES)
    cache: list[Cache] = Field([], max_length=MAX_VALUES)
    prompt_bucket: list[Bucket] = Field(
        [], max_length=MAX_VALUES, description="Prompt length in tokens, such as 512-1023"
    )
    status: list[Status] = Field([], max_length=MAX_VALUES)
    operation: list[Name] = Field([], max_length=MAX_VALUES)
    service: list[Name] = Field([], max_length=MAX_VALUES)
    policy_rule: list[Name] = Field([], max_length=MAX_VALUES, description="The routing rule that it followed")
    degraded: list[Name] = Field([], max_length=MAX_VALUES, description="The step of the ladder that changed it")
    tokens: list[TokenBound] = Field(
        [], max_length=MAX_ATTRIBUTES, description="Of the prompt, such as >4000 or <=512; all given must hold"
    )
    attribute: list[Attribute] = Field(
        [],
        max_length=MAX_ATTRIBUTES,
        description="key=value of an attribute that some span of the request has, such as user.id=42; all given must hold",
    )
    not_: list[Unwanted] = Field(
        [],
        alias="not",
        max_length=MAX_ATTRIBUTES,
        description="key=value that must not hold: of a filter above, such as model=chat-small, or of an attribute",
    )


def question_of(request: HttpRequest) -> Question:
    """Raises BadQuestionError."""
    return parse(dict(request.GET.lists()), time.time_ns())
