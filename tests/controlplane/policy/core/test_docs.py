"""docs/policies.md: its examples can be followed, and it names every field, rail and variable."""

import re

import msgspec

from controlplane.policy.core import spec
from controlplane.policy.core.conditions import TRUTHS, VARIABLES
from controlplane.policy.core.document import read
from controlplane.policy.core.rails.rails import RAILS
from deploy.local.process import ROOT

PAGE = (ROOT / "docs/policies.md").read_text()


def test_every_example_can_be_followed() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 6
    for text in examples:
        policies, problems = read(text)
        assert [problem.text() for problem in problems] == []
        assert len(policies) == 1


def test_every_field_rail_and_variable_is_explained() -> None:
    kinds = [each for each in vars(spec).values() if isinstance(each, type) and issubclass(each, spec.Spec)]
    fields = {field.name for kind in kinds for field in msgspec.structs.fields(kind)}
    variables = {name for names in (*VARIABLES.values(), *TRUTHS.values()) for name in names}
    words = set(re.findall(r"\w+", PAGE))
    assert sorted((fields | variables | {rail.name for rail in RAILS}) - words) == []


def test_every_test_that_the_page_of_the_unknown_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs/unknown.md").read_text())
    assert len(named) > 25
    files = {
        path: ROOT / ("tests" if path.startswith(("forecasting/", "inference/")) else "tests/controlplane") / path
        for path, _ in named
    }
    texts = {path: file.read_text() for path, file in files.items()}
    assert [test for path, test in named if f"def {test}(" not in texts[path]] == []
