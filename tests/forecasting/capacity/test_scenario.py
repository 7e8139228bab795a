from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.capacity.assumptions import CapacityError
from forecasting.capacity.scenario import AS_FORECAST, Launch, Scenario, parse_scenario, scenario_text

FACTORS = st.integers(1, 400).map(lambda percent: percent / 100)
SCENARIOS = st.builds(
    Scenario,
    peak=FACTORS,
    inputs=FACTORS,
    outputs=FACTORS,
    hit_rate=st.integers(-100, 100).map(float),
    gpu=st.sampled_from(("", "H100", "A100 80 GB")),
    lost=st.lists(st.sampled_from(("eu", "us", "ap"))).map(tuple),
    launches=st.lists(
        st.builds(
            Launch,
            st.sampled_from(("chat-large", "llama3:70b", "org/model")),
            st.integers(1, 500).map(float),
            st.dates(date(2020, 1, 1), date(2030, 1, 1)),
        ),
        max_size=2,
    ).map(tuple),
    level=st.none() | st.integers(0, 100).map(lambda percent: percent / 100),
)


@given(SCENARIOS)
def test_a_scenario_is_read_back_from_its_text(scenario: Scenario) -> None:
    assert parse_scenario(scenario_text(scenario)) == scenario


def test_a_scenario_is_named_in_words() -> None:
    scenario = parse_scenario("peak=2; outputs=1.3; hit_rate=-10; lost=eu; launch=chat:50:2026-12-03")
    assert scenario.name == (
        "peak × 2, outputs +30 %, hit rate -10 points, eu lost, chat +50 requests/s from 2026-12-03"
    )
    assert parse_scenario("") == AS_FORECAST
    assert AS_FORECAST.name == "as forecast"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peak=two", "peak is 'two': give a number"),
        ("peak=-1", "peak is -1: give a number 0 or more"),
        ("peak=nan", "peak is nan: give a number"),
        ("outputs=0", "outputs is 0: give a number above 0"),
        ("hit_rate=-130", "hit_rate is -130: give a number -100 or more, and at most 100"),
        ("twice", "write name=value, such as peak=2"),
        ("speed=2", "scenario has 'speed': use one of peak"),
        ("launch=chat:50", "write model:requests_per_s:YYYY-MM-DD"),
        ("launch=chat:many:2026-12-03", "launch: requests_per_s is 'many'"),
        ("level=2", "level is 2: give a number 0 or more, and at most 1"),
    ],
)
def test_what_cannot_be_read_is_answered_with_field_value_and_remedy(text: str, message: str) -> None:
    with pytest.raises(CapacityError) as error:
        parse_scenario(text)
    assert message in str(error.value)
