"""Other weights in the text of a routing policy."""

import pytest

from controlplane.policy.core.document import read
from controlplane.policy.revisions.core.route_text import with_routes

TEXT = """\
# Ours.
apiVersion: weir/v1
kind: Routing
metadata: {{name: routes}}
spec:
  model: chat
  rules:
    - name: all
      routes: {routes}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{old: 60, new: 40}", "{old: 0, new: 100}"),
        ('{"old": 60, # so far\n        "new": +40}', '{"old": 0, # so far\n        "new": 100}'),
        ("{old: 100}", "{new: 100, old: 0}"),
        ("\n        old: 100  # all\n        third: 1", "\n        new: 100\n        old: 0  # all\n        third: 1"),
        ("\n        old: 0x64\n        new: 0", "\n        old: 0\n        new: 100"),
    ],
)
def test_weights_change_and_nothing_else_does(before: str, after: str) -> None:
    [policy], _ = read(TEXT.format(routes=before))
    third = {"third": 1} if "third" in before else {}
    text = with_routes(policy, {0: {"old": 0, "new": 100, **third}})
    assert text.rstrip() == TEXT.format(routes=after).rstrip()


def test_where_an_alias_stands_in_the_way_the_document_is_written_anew() -> None:
    [policy], _ = read(TEXT.format(routes="{old: &all 100, new: 0}\n      priority: 9\n      max_output_tokens: *all"))
    text = with_routes(policy, {0: {"old": 0, "new": 100}})
    [after], problems = read(text)
    rule = after.node.at("spec", "rules", 0)
    assert not problems and rule is not None and "# Ours" not in text
    assert rule.plain == {
        "name": "all", "routes": {"old": 0, "new": 100}, "priority": 9, "max_output_tokens": 100
    }  # fmt: skip
