"""One variant of an objective, with its replays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.slo.core.count_plan import Split, scope_of
from controlplane.slo.core.objective import Objective
from controlplane.slo.replay.core.episodes import Episode, Page, Replay


class ScopedEpisode(NamedTuple):
    scope: Mapping[str, str]
    episode: Episode


class ScopedReplay(NamedTuple):
    scope: Mapping[str, str]
    replay: Replay


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the objective, replayed for each value of its split, or once."""

    name: str
    objective: Objective
    replays: Mapping[Split, Replay]
    left_out: int  # values of the split beyond the most that are replayed

    @property
    def episodes(self) -> list[ScopedEpisode]:
        """Each with its scope, by time."""
        episodes = [
            ScopedEpisode(scope_of(self.objective, split), episode)
            for split, replay in self.replays.items()
            for episode in replay.episodes
        ]
        return sorted(episodes, key=lambda each: each.episode.opened_s)

    @property
    def by_scope(self) -> list[ScopedReplay]:
        """The one with the most pages first."""
        replays = [ScopedReplay(scope_of(self.objective, split), replay) for split, replay in self.replays.items()]
        return sorted(replays, key=lambda each: (-len(each.replay.pages), each.replay.left_share))

    @property
    def pages(self) -> list[Page]:
        return sorted(
            (page for replay in self.replays.values() for page in replay.pages), key=lambda page: page.opened_s
        )

    @property
    def tickets(self) -> list[Episode]:
        return [episode for replay in self.replays.values() for episode in replay.tickets]

    @property
    def paged_s(self) -> int:
        return sum(replay.paged_s for replay in self.replays.values())

    @property
    def events(self) -> tuple[int, int]:
        """Bad and total events of the results."""
        events = [replay.judged.events for replay in self.replays.values()]
        return sum(bad for bad, _ in events), sum(total for _, total in events)

    @property
    def worst(self) -> Replay | None:
        """The replay with the least budget left, which the chart shows."""
        return min(self.replays.values(), key=lambda replay: replay.left_share, default=None)

    @property
    def recorded_from_s(self) -> int | None:
        """When the first request was recorded, as far as history was read; None without one."""
        known = [replay.history.since_s for replay in self.replays.values() if replay.history.steps]
        return min(known, default=None)
