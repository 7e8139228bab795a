"""What the URL of a screen says, from which its links, forms and exports are made, and the queries of links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.dashboard.core import zone
from controlplane.telemetry.core.query_types import Dimension
from controlplane.telemetry.query.core.parameters import Parameters, choice, query_string, single
from controlplane.telemetry.query.core.question import Question, parse
from controlplane.telemetry.query.core.slow import parse_slow

GROUPS: tuple[Dimension, ...] = (
    "model", "pool", "replica", "tier", "cache", "prompt_bucket", "tenant", "region", "status",
)  # fmt: skip
VIEWS = ("stages", "heatmap")
LATENCY_DEFAULTS = {"by": "model", "view": VIEWS[0]}
Pairs = Sequence[tuple[str, str]]


def link_query(pairs: Pairs) -> str:
    """The query string of a link between pages: with the zone of the page's own URL."""
    return query_string([*pairs, *zone.of_url()])


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen of requests. `settings` are its own parameters, which stay whatever is changed; those with their default are not written.
    `region` is a part of what is shown, with times of its own: it leaves with the range."""

    path: str
    question: Question
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    region: Pairs = ()

    def query(self, question: Question | None = None, **changed: str) -> str:
        """Of a link to this screen: for another question, or with some settings changed. An empty one is taken away."""
        question = question or self.question
        stays = _ends(question) == _ends(self.question)
        own = replace(self, settings={**self.settings, **changed}).own()
        return link_query([*question.pairs(), *(self.region if stays else ()), *own])

    def own(self) -> list[tuple[str, str]]:
        """The settings as parameters."""
        return [(name, value) for name, value in self.settings.items() if value and value != self.defaults.get(name)]


def _ends(question: Question) -> tuple[str, str]:
    return question.range.from_text, question.range.to_text


def latency_screen(path: str, parameters: Parameters, now_ns: int) -> Screen:
    """`by`: the dimension that the second table is grouped by; `across`: another, for pairs of their values. `view`: the chart.
    `compare`: another time or slice beside it. A region of it is in the parameters of `parse_slow`. Raises BadQuestionError."""
    by = choice(parameters, "by", GROUPS, LATENCY_DEFAULTS["by"])
    settings = {
        "by": by,
        "across": choice(parameters, "across", ("", *(name for name in GROUPS if name != by)), ""),
        "view": choice(parameters, "view", VIEWS, LATENCY_DEFAULTS["view"]),
        "compare": single(parameters, "compare", ""),
    }
    region = parse_slow(parameters, now_ns).pairs()
    return Screen(path, parse(parameters, now_ns), settings, LATENCY_DEFAULTS, region)
