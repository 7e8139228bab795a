"""Shapes of the replay of an objective that is not saved yet. Times are s since the epoch."""

from ninja import Field, Schema

from controlplane.api.formats import TIME, Finite, Given, Instant, Length, Name
from controlplane.api.schemas.objectives import ObjectiveDifference, ObjectiveDraft
from controlplane.slo.core.windows import Severity
from controlplane.slo.replay.core.variant import ScopedEpisode, Variant

MAX_COMPARED = 5
MAX_EPISODES = 1000


class Previewed(Given):
    """Objectives are as `GET objectives/{slug}` shows them; what is left out has its default."""

    objective: ObjectiveDraft
    compare: dict[Name, ObjectiveDifference] = Field(
        {},
        max_length=MAX_COMPARED,
        description="By name: fields that differ, such as `windows`, replayed beside it",
    )
    from_: Instant = Field("now-30d", alias="from", description=TIME)
    to: Instant = Field("now", description=TIME)


class PageOut(Schema):
    opened_s: int
    closed_s: int | None = Field(description="null where it is open at `to_s`")
    long_s: int = Field(
        validation_alias="window.long_s", description="Of the fastest windows that fired at its opening"
    )
    short_s: int = Field(validation_alias="window.short_s")
    rate: float = Field(description="Burn rate over `long_s` at its opening")
    left_share: float = Field(description="Of the budget at its opening")
    lasts_s: Finite = Field(description="Until the budget is used up at that rate; null where it never is")
    exhausted_s: int | None = Field(description="When the budget was used up, at or after its opening; null: never")


class EpisodeOut(Schema):
    """One incident: the time in which any window fires without a break."""

    scope: dict[str, str]
    severity: Severity = Field(validation_alias="episode.severity")
    opened_s: int = Field(validation_alias="episode.opened_s")
    closed_s: int | None = Field(validation_alias="episode.closed_s", description="null where it is open at `to_s`")
    windows: list[int] = Field(validation_alias="episode.windows", description="Positions in the objective's `windows`")
    worst_rate: float = Field(validation_alias="episode.worst_rate", description="Highest burn rate that fired")
    pages: list[PageOut] = Field(validation_alias="episode.pages")


class ScopeOut(Schema):
    """One value of the split."""

    scope: dict[str, str]
    pages: Length = Field(validation_alias="replay.pages")
    tickets: Length = Field(validation_alias="replay.tickets", description="Incidents that never paged")
    left_share: float = Field(validation_alias="replay.left_share", description="Of the budget at `to_s`")
    exhausted_s: int | None = Field(
        validation_alias="replay.exhausted_s", description="When the budget was first used up; null: never"
    )
    warning_s: int | None = Field(
        validation_alias="replay.warning_s",
        description="From the first page until the budget was used up, below 0 where the page came later",
    )


class VariantOut(Schema):
    name: str
    pages: Length
    tickets: Length = Field(description="Incidents that never paged")
    paged_s: int = Field(description="How long pages were open in total")
    bad: int = Field(validation_alias="events.0")
    total: int = Field(validation_alias="events.1")
    splits_left_out: int = Field(validation_alias="left_out", description="Values of the split beyond the most")
    scopes: list[ScopeOut] = Field(validation_alias="by_scope", description="The one with the most pages first")
    episodes: list[EpisodeOut] = Field(description="By time")
    episodes_left_out: int

    @staticmethod
    def resolve_episodes(variant: Variant) -> list[ScopedEpisode]:
        return variant.episodes[:MAX_EPISODES]

    @staticmethod
    def resolve_episodes_left_out(variant: Variant) -> int:
        return max(0, len(variant.episodes) - MAX_EPISODES)


class PreviewOut(Schema):
    from_s: int
    to_s: int
    recorded_from_s: int | None = Field(
        None, description="Before it, there are no requests; null where nothing is recorded"
    )
    history_s: int = Field(..., description="How much of the draft's period at `to` is recorded")
    step_s: int = Field(..., description="Judged once per step")
    variants: list[VariantOut] = Field(description="The draft, then those of `compare`")
