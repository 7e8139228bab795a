"""Random objectives, as far as a value allows them: also such as OpenSLO's own fields cannot hold."""

from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from controlplane.slo.core.burn import MinimumEvents
from controlplane.slo.core.objective import DIMENSIONS, Calendar, Objective, Occurrences, Rolling, Timeslices
from controlplane.slo.core.sli import MEASURES, Availability, Cost, Histogram, Latency
from controlplane.slo.core.windows import BurnWindow
from inference.contract.stages import STAGES

texts = st.text(st.characters(codec="utf-8"), max_size=80)
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
positive = st.floats(min_value=1e-6, max_value=1e12, allow_nan=False)
slugs = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,70}[a-z0-9])?", fullmatch=True)
labels = st.dictionaries(st.one_of(words, st.sampled_from(["env", "cost-centre"])), texts, max_size=3)


def metric(name: str) -> bool:
    return not name.endswith(("_bucket", "_count", "_sum"))


indicators = st.one_of(
    st.builds(Availability, st.booleans()),
    st.builds(
        Latency,
        measure=st.sampled_from([*MEASURES, *STAGES]),
        threshold_ms=positive,
        ttft_definition=st.one_of(st.just("gateway"), words),
    ),
    st.builds(Cost, usd_per_1k_tokens=positive),
    st.builds(Histogram, metric=words.filter(metric), threshold=positive, labels=labels),
)


@st.composite
def windows(draw: st.DrawFn) -> BurnWindow:
    long_s = draw(st.one_of(st.integers(2, 10**6), st.sampled_from([3600, 86_400])))
    return BurnWindow(
        draw(st.sampled_from(["page", "ticket"])),
        long_s,
        draw(st.integers(1, long_s - 1)),
        draw(st.floats(1e-9, 1, exclude_min=True)),
    )


calendars = st.builds(
    Calendar,
    unit=st.sampled_from(["day", "week", "month", "quarter", "year"]),
    start=st.datetimes(min_value=datetime(1000, 1, 1)),
    zone=st.sampled_from(["UTC", "America/New_York", "Europe/Berlin"]),
    count=st.integers(1, 400),
)
rollings = st.builds(Rolling, period_s=st.one_of(st.integers(1, 10**8), st.sampled_from([2_592_000, 604_800])))


@st.composite
def objectives(draw: st.DrawFn) -> Objective:
    split_by = draw(st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=3))
    others = [name for name in DIMENSIONS if name not in split_by]
    optional: Any = st.one_of(st.just(""), texts)
    return Objective(
        slug=draw(slugs),
        name=draw(st.one_of(texts, st.just("x" * 200))),
        indicator=draw(indicators),
        target=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        scope=draw(st.dictionaries(st.sampled_from(others), texts, max_size=3)) if others else {},
        split_by=tuple(split_by),
        period=draw(st.one_of(rollings, calendars)),
        method=draw(
            st.one_of(
                st.just(Occurrences()),
                st.builds(
                    Timeslices,
                    slice_s=st.one_of(st.integers(1, 10**5), st.just(60)),
                    slice_target=st.floats(0, 1, exclude_min=True),
                ),
            )
        ),
        windows=tuple(draw(st.lists(windows(), max_size=4))),
        minimum=MinimumEvents(draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))),
        owner=draw(optional),
        runbook=draw(optional),
        runbook_text=draw(st.one_of(optional, texts, st.just("# Look\n\n1. one  \n2. two: # no\n\n\ttab\n\n"))),
        labels=draw(labels),
        description=draw(st.one_of(texts, st.just("long " * 300))),
    )
