"""A difference gives a browser the whole new text, and is small where little has changed."""

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from controlplane.dashboard.core.difference import difference
from tests.support.web.merged import merged

TEXTS = st.lists(st.sampled_from(["<td>", "</td>", "12", "13.5", ",", " ", "chat-large", "◐", "\n", "🌊"])).map("".join)


@given(TEXTS, TEXTS)
def test_a_difference_leads_from_any_text_to_any_other(before: str, after: str) -> None:
    assert merged(before, difference(before, after)) == after


def test_a_page_with_a_figure_whose_newest_values_changed_takes_a_twentieth() -> None:
    dice = random.Random(7)
    values = [round(dice.random(), 4) for _ in range(3_000)]
    rows = "".join(f"<tr><td>{value}</td></tr>\n" for value in values[:400])
    before = f"<script>{json.dumps(values)}</script><table>{rows}</table>"
    values[-20:] = [round(dice.random(), 4) for _ in range(20)]
    after = f"<script>{json.dumps(values)}</script><table><tr><td>new</td></tr>\n{rows}</table>"
    changes = difference(before, after)
    assert merged(before, changes) == after
    assert len(json.dumps(changes)) < len(after) / 20
